"""Runs verify.py on what the tests of the other implementation made, and prints what it says.

    against.py VERIFY.PY SCHEMA-SHA256 CASES    one JSON object a line in CASES, one answer a line on stdout
"""

import base64
import hashlib
import importlib.util
import io
import json
import sys


def load(path, schema):
    spec = importlib.util.spec_from_file_location("verify", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.SCHEMAS[1] == schema, "verify.py knows another form of entries: " + schema
    return module


verify = load(sys.argv[1], sys.argv[2])


class Memory(verify.Folder):
    """A bundle in memory."""

    def __init__(self, files):
        self.held = files

    def files(self):
        return {name: True for name in self.held}

    def open(self, name):
        if name not in self.held:
            raise FileNotFoundError(name)
        return io.BytesIO(self.held[name])


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def first(verification):
    faults = verification.faults
    return verify.compact(faults[0]) if faults else "none"


class Parts(verify.Verification):
    """One that looks at a single part of what it is given."""

    def __init__(self, folder, whole):
        self.folder, self.manifest, self.faults, self.faults_total = folder, whole.manifest, [], 0
        self.faults_max = None


def all_flips(files, name):
    """The first fault of every flip of a file's bits, as a digest, and how many were not found."""
    told, missed, data = hashlib.sha256(), [], files[name]
    whole = verify.Verification(Memory(files))
    listed = [file for file in whole.manifest["files"] if file["name"] == name]
    found = {one: True for one in files}
    for bit in range(len(data) * 8):
        changed = {**files, name: flipped(data, bit)}
        if listed and name not in ("key.pub", "checkpoint"):
            # What comes before this file's own bytes is as it was.
            parts = Parts(Memory(changed), whole)
            parts.tried(name, parts.file, listed[0], found)
        else:
            parts = verify.Verification(Memory(changed), faults_max=1)
        if not parts.faults:
            missed.append(bit)
        told.update(first(parts).encode() + b"\n")
    return {"digest": told.hexdigest(), "missed": missed[:20], "flips": len(data) * 8}


def line_flips(files, line, proof):
    """Every flip of one line, proven against nothing but itself."""
    decoder = verify.decoder_of(files["schema.json"])
    told, missed, data = hashlib.sha256(), [], line.encode()
    for bit in range(len(data) * 8):
        what = "none"
        try:
            verify.Line(flipped(data, bit), decoder, proof)
            missed.append(bit)
        except verify.Bad as bad:
            what = str(bad)
        told.update(what.encode() + b"\n")
    return {"digest": told.hexdigest(), "missed": missed[:20], "flips": len(data) * 8}


def answer(case, held):
    for name, text in case.get("files", {}).items():
        held[name] = base64.b64decode(text)
    for name in case.get("without", []):
        held.pop(name, None)
    if "flips" in case:
        return all_flips(held, case["flips"])
    if "line" in case:
        return line_flips(held, case["line"], case["proof"])
    witness = case.get("witness")
    if "proof_file" in case:
        return verify.Proof(base64.b64decode(case["proof_file"]), case.get("key"), witness and witness.encode()).verdict()
    return verify.Verification(Memory(held), case.get("key"), witness and witness.encode()).verdict()


held = {}
for text in open(sys.argv[3], encoding="utf-8"):
    case = json.loads(text)
    if case.get("anew"):
        held = {}
    if "bundle" in case:
        base = {name: base64.b64decode(text) for name, text in case["bundle"].items()}
        held = dict(base)
    page = answer(case, dict(held))
    print(verify.compact(page))
