#!/usr/bin/env python3
"""Checks an audit bundle of gpu-ledger, or one proven settlement, without gpu-ledger.

    python3 verify.py [BUNDLE] [--key VKEY_OR_FILE] [--witness FILE] [--json]

BUNDLE is the folder of the bundle (default: the one that holds this file) or the file of `audit prove`. Needs Python 3.9
and the package `cryptography` (Ed25519). Says what `gpu-ledger audit verify` says, in the same words and with the same
exit status: 0 all good, 1 integrity failed, 2 integrity is good but something of the period is unknown, 64 usage.

Take the key and an old checkpoint from somewhere else than the bundle: whoever can sign can make another bundle.

How it is proven: every line of entries.jsonl holds the canonical bytes of an entry. Their SHA-256 is the entry's hash, and
with a 0 byte before them the leaf of an RFC 6962 tree whose root is signed in `checkpoint`. What is readable in a line,
and in every other file that is read here, is made again from its values and compared byte for byte, so that it cannot
say anything else. Memory: one line, and 24 bytes for every settlement.
"""

import argparse
import base64
import binascii
import datetime
import hashlib
import json
import os
import re
import stat
import sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit("verify.py: the package cryptography is needed: pip install cryptography")

VERSION = 1
# The form of entries, by version of the format: a bundle cannot bring another one.
SCHEMAS = {1: "da59703ffa576db32cac292024deb2d21357ec051439f37b6d46ed96eb8c37c2"}
WITNESS_GIVEN = "--witness"
LINE_MAX = 16 << 20
SMALL_MAX = 16 << 20
FILES_MAX = 4096
FAULTS_TOLD_MAX = 20
GAPS_TOLD_MAX = 100
# When an entry was first seen that the bundle does not have.
NO_CONTEXT = -1
BLOCK = 1 << 20
U64 = (1 << 64) - 1
NEEDED = ("checkpoint", "context.jsonl", "entries.jsonl", "key.pub", "range.json", "schema.json")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?")
HEX = "[0-9a-f]{64}"
LINE = re.compile(
    (r'\{"seq":(0|[1-9][0-9]{0,19}),"hash":"(%s)","previous":"(%s)","body":"([A-Za-z0-9+/]*={0,2})"'
     r',"evidence":"([A-Za-z0-9+/]*={0,2})","entry":' % (HEX, HEX)).encode())
PROOF = re.compile((r',"proof":\[((?:"%s"(?:,"%s")*)?)\]\}' % (HEX, HEX)).encode())


class Bad(Exception):
    """What is wrong with one thing, in words that the program has too."""


class Stop(Exception):
    """Enough faults were found."""


def shown(text):
    """At most 100 characters of a stranger's text, printable."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        out.append(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else "\\x%02x" % byte)
        if len(out) > 100:
            return "".join(out[:100]) + "..."
    return "".join(out)


def sha256(data):
    return hashlib.sha256(data).digest()


def node(left, right):
    return sha256(b"\x01" + left + right)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def unbase64(text, what):
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Bad(what) from None
    if base64.b64encode(data) != (text.encode() if isinstance(text, str) else text):
        raise Bad(what)
    return data


# ---- signed notes (C2SP signed-note, tlog-checkpoint) ----

P25519 = (1 << 255) - 19
# y of the points of small order on Curve25519: whoever has such a key signs everything.
WEAK = {0, 1, P25519 - 1, 2707385501144840649318225287225658788936804267575313519463743609750303021404,
        55188659117513257062467267217118295137698188065244968500265048394206261417927}
NOT_SIGNED = "is not signed by a key of this journal"
KEY_CHANGE = "gpu-ledger key change v1\n%s\n%s\n"


def is_weak(point):
    return (int.from_bytes(point, "little") & ((1 << 255) - 1)) % P25519 in WEAK


def is_name(name):
    bad = any(c.isspace() or c == "+" or c < " " or "\x7f" <= c <= "\x9f" for c in name)
    return 0 < len(name.encode()) <= 255 and not bad


class Key:
    """A verifier key: name+hash+base64(0x01 || Ed25519 public key)."""

    def __init__(self, text):
        what = "is not a key: name+id+base64"
        parts = text.split("+", 2)
        if len(parts) != 3 or not is_name(parts[0]) or not re.fullmatch("[A-Za-z0-9+/=]+", parts[2]):
            raise Bad(what)
        self.text, self.name, self.raw = text, parts[0], unbase64(parts[2], what)
        if len(self.raw) != 33 or self.raw[0] != 1 or is_weak(self.raw[1:]):
            raise Bad(what)
        self.id = sha256(self.name.encode() + b"\n" + self.raw)[:4]
        if self.id.hex() != parts[1]:
            raise Bad(what)

    def signed(self, text, signature):
        if len(signature) != 64 or is_weak(signature[:32]):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw[1:]).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


def note(data):
    """The text of a signed note, and its signatures as (name, key id, signature)."""
    what = "is not a signed note"
    if len(data) > 1 << 18:
        raise Bad(what)
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Bad(what) from None
    if re.search("[\x00-\x09\x0b-\x1f]", whole) or "\n\n" not in whole or not whole.endswith("\n"):
        raise Bad(what)
    text, lines = whole.rsplit("\n\n", 1)
    signatures = []
    for line in lines[:-1].split("\n"):
        dash, _, rest = line.partition("\u2014 ")
        name, _, signature = rest.partition(" ")
        if dash or not is_name(name) or not re.fullmatch("[A-Za-z0-9+/=]+", signature):
            raise Bad(what)
        raw = unbase64(signature, what)
        if len(raw) < 5 or len(signatures) == 64:
            raise Bad(what)
        signatures.append((name, raw[:4], raw[4:]))
    return text + "\n", signatures


def opened(data, keys, alone):
    """The text of a note that one of the keys signed; `alone`: and nobody else."""
    text, signatures = note(data)
    by = [(key, one[2]) for one in signatures for key in keys if one[:2] == (key.name, key.id)]
    if not by or alone and len(signatures) != 1 or not all(key.signed(text, signature) for key, signature in by):
        raise Bad(NOT_SIGNED)
    return text


def checkpoint(text):
    """Origin, size and root of a checkpoint."""
    what, parts = "is not a checkpoint", text.split("\n")
    if len(parts) < 4 or "" in parts[:-1] or not re.fullmatch("0|[1-9][0-9]{0,19}", parts[1]):
        raise Bad(what)
    root = unbase64(parts[2], what)
    if int(parts[1]) > U64 or len(root) != 32:
        raise Bad(what)
    return parts[0], int(parts[1]), root


# ---- the tree (RFC 6962, RFC 9162 section 2.1) ----

def subtrees(begin, end):
    """Sizes of the maximal aligned subtrees that cover [begin, end), left to right."""
    while begin < end:
        size = begin & -begin if begin else 1 << 63
        while begin + size > end:
            size >>= 1
        yield size
        begin += size


class Tree:
    """Grows from the left; remembers its root at the sizes that are asked for."""

    def __init__(self, asked):
        self.stack, self.size, self.asked, self.roots = [], 0, set(asked), {}

    def push(self, size, digest):
        self.size += size
        while self.stack and self.stack[-1][0] == size:
            digest = node(self.stack.pop()[1], digest)
            size *= 2
        self.stack.append((size, digest))
        if self.size in self.asked:
            self.roots[self.size] = self.root()

    def root(self):
        if not self.stack:
            return sha256(b"")
        digest = self.stack[-1][1]
        for _, left in reversed(self.stack[:-1]):
            digest = node(left, digest)
        return digest


def included(leaf, index, size, path, root):
    at, last = index, size - 1
    for step in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            leaf = node(step, leaf)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            leaf = node(leaf, step)
        at, last = at >> 1, last >> 1
    return last == 0 and leaf == root


def consistent(size, root, new_size, new_root, path):
    if size == new_size:
        return not path and root == new_root
    if not 0 < size < new_size:
        return False
    if size & (size - 1) == 0:
        path = [root] + path
    if not path:
        return False
    at, last = size - 1, new_size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = node(step, old), node(step, new)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            new = node(new, step)
        at, last = at >> 1, last >> 1
    return last == 0 and old == root and new == new_root


# ---- canonical bytes, read by schema.json ----

class Decoder:
    """Values of canonical bytes: 'A' or 'L', four bytes of length, then an atom or a list of values."""

    def __init__(self, schema):
        self.records, self.made = schema["records"], {}
        self.entry, self.evidence = self.of(schema["entry"]), self.of(schema["evidence"])

    def whole(self, read, data):
        try:
            value, end = read(data, 0, len(data))
        except UnicodeDecodeError:
            raise Bad("its bytes are not canonical") from None
        if end != len(data):
            raise Bad("its bytes are not canonical")
        return value

    def of(self, form):
        if isinstance(form, str):
            return getattr(self, form)
        (kind, what), = form.items()
        if kind == "record":
            if what not in self.made:
                self.made[what] = self.listed(self.fields(self.records[what]))
            return self.made[what]
        return getattr(self, "a_" + kind)(what)

    def fields(self, fields):
        always = [(name, self.of(form)) for name, form in fields["always"]]
        last = fields.get("last")
        last = last and (last[0], self.of(last[1]))
        if last is None and len(always) == 1 and always[0][0] == "0":
            return always[0][1]

        def read(data, at, end):
            value = {}
            for name, one in always:
                value[name], at = one(data, at, end)
            if last:
                value[last[0]] = None
                if at < end:
                    value[last[0]], at = last[1](data, at, end)
            return value, at
        return read

    @staticmethod
    def cut(tag, data, at, end):
        begin = at + 5
        if begin > end or data[at] != tag:
            raise Bad("its bytes are not canonical")
        after = begin + int.from_bytes(data[at + 1:begin], "big")
        if after > end:
            raise Bad("its bytes are not canonical")
        return begin, after

    def listed(self, inner):
        def read(data, at, end):
            begin, after = self.cut(0x4C, data, at, end)
            value, reached = inner(data, begin, after)
            if reached != after:
                raise Bad("its bytes are not canonical")
            return value, after
        return read

    def bytes(self, data, at, end):
        begin, after = self.cut(0x41, data, at, end)
        return base64.b64encode(data[begin:after]).decode(), after

    def text(self, data, at, end):
        begin, after = self.cut(0x41, data, at, end)
        return data[begin:after].decode("utf-8"), after

    def sized(self, size, data, at, end):
        begin, after = self.cut(0x41, data, at, end)
        if after - begin != size:
            raise Bad("its bytes are not canonical")
        return data[begin:after], after

    def number4(self, data, at, end):
        value, after = self.sized(4, data, at, end)
        return int.from_bytes(value, "big"), after

    def number8(self, data, at, end):
        value, after = self.sized(8, data, at, end)
        return int.from_bytes(value, "big"), after

    def number16(self, data, at, end):
        value, after = self.sized(16, data, at, end)
        return value.hex(), after

    def digest(self, data, at, end):
        value, after = self.sized(32, data, at, end)
        return value.hex(), after

    def time(self, data, at, end):
        value, after = self.listed(self.number8)(data, at, end)
        return moment(value), after

    def bool(self, data, at, end):
        return self.a_word(["no", "yes"])(data, at, end)[0] == "yes", self.cut(0x41, data, at, end)[1]

    def a_word(self, words):
        known = {word.encode(): word for word in words}

        def read(data, at, end):
            begin, after = self.cut(0x41, data, at, end)
            word = known.get(bytes(data[begin:after]))
            if word is None:
                raise Bad("its bytes are not canonical")
            return word, after
        return read

    def a_maybe(self, form):
        one = self.of(form)
        return self.listed(lambda data, at, end: (None, at) if at == end else one(data, at, end))

    def a_list(self, form):
        one = self.of(form)

        def read(data, at, end):
            values = []
            while at < end:
                value, at = one(data, at, end)
                values.append(value)
            return values, at
        return self.listed(read)

    def a_set(self, form):
        one, words = self.a_list(form), isinstance(form, dict) and form.get("word")

        def read(data, at, end):
            values, after = one(data, at, end)
            ranks = [words.index(value) if words else value for value in values]
            if any(a >= b for a, b in zip(ranks, ranks[1:])):
                raise Bad("its bytes are not canonical")
            return values, after
        return read

    def a_pair(self, forms):
        first, second = map(self.of, forms)

        def read(data, at, end):
            one, at = first(data, at, end)
            other, at = second(data, at, end)
            return [one, other], at
        return self.listed(read)

    def a_tagged(self, words):
        known = {word: self.fields(fields) for word, fields in words.items()}
        tag = self.a_word(known)

        def read(data, at, end):
            word, at = tag(data, at, end)
            value, at = known[word](data, at, end)
            return {word: value}, at
        return self.listed(read)


def decoder_of(data):
    if sha256(data).hex() != SCHEMAS[VERSION]:
        raise Bad("is not the form of entries of this version")
    return Decoder(json.loads(data))


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def moment(us):
    try:
        at = (EPOCH + datetime.timedelta(microseconds=us)).isoformat(timespec="microseconds")
    except OverflowError:
        at = None
    return {"at": at, "us": str(us)}


def atom(data):
    return b"A" + len(data).to_bytes(4, "big") + data


def hashed_bytes(seq, previous, body, evidence):
    """What an entry's hash is over."""
    inner = atom(b"gpu-ledger entry") + atom((1).to_bytes(4, "big")) + atom(seq.to_bytes(8, "big")) + atom(previous)
    inner += atom(body) + atom(sha256(evidence))
    return b"L" + len(inner).to_bytes(4, "big") + inner


class Line:
    """An entry, proven against its own hash, and what is readable of it against its bytes."""

    def __init__(self, line, decoder, has_proof):
        what = "is not a line of this format"
        match = LINE.match(line)
        if not match or int(match[1]) > U64:
            raise Bad(what)
        self.seq, self.hash, self.previous = int(match[1]), match[2].decode(), match[3].decode()
        body, evidence = unbase64(match[4], what), unbase64(match[5], what)
        hashed = hashed_bytes(self.seq, bytes.fromhex(self.previous), body, evidence)
        if hashlib.sha256(hashed).hexdigest() != self.hash:
            raise Bad("its bytes have another hash")
        self.leaf = sha256(b"\x00" + hashed)
        entry, self.because = decoder.whole(decoder.entry, body), decoder.whole(decoder.evidence, evidence)
        self.at, ((self.kind, self.figures),) = entry["at"], entry["figures"].items()
        made = match[0] + (compact(entry) + ',"because":' + compact(self.because)).encode()
        self.proof = None
        if has_proof:
            proof = line.startswith(made) and PROOF.fullmatch(line, len(made))
            if proof:
                self.proof = [bytes.fromhex(one) for one in re.findall(HEX, proof[1].decode())]
        if (self.proof is None) if has_proof else line != made + b"}":
            raise Bad("its readable part is not what its bytes say")


# ---- the bundle's files ----

class Folder:
    """A bundle on the disk."""

    def __init__(self, path):
        self.path = path

    def files(self):
        """Every name below it, with whether it is a plain file; folders of folders are none."""
        found = {}

        def look(folder, before):
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = before + entry.name
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode) and not before:
                        look(entry.path, name + "/")
                    else:
                        found[name] = stat.S_ISREG(mode)
                    if len(found) > FILES_MAX + 2:
                        raise Bad("holds more files than a bundle has")
        look(self.path, "")
        return found

    def open(self, name):
        return os.fdopen(os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")

    def small(self, name):
        with self.open(name) as file:
            data = file.read(SMALL_MAX + 1)
        if len(data) > SMALL_MAX:
            raise Bad("is larger than 16 MiB")
        return data


def lines(file):
    """The lines of a file without their ends; none is kept that is longer than LINE_MAX."""
    rest = b""
    while True:
        block = file.read(BLOCK)
        if not block:
            break
        *whole, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        for line in whole:
            if len(line) > LINE_MAX:
                raise Bad("a line is longer than 16 MiB")
            yield line
        if len(rest) > LINE_MAX:
            raise Bad("a line is longer than 16 MiB")
    if rest:
        raise Bad("the file ends inside a line")


def has_keys(value, *names):
    if not isinstance(value, dict) or list(value) != list(names):
        raise ValueError
    return value


def number(value):
    if type(value) is not int or not 0 <= value <= U64:
        raise ValueError
    return value


def decimal(value):
    if not re.fullmatch("0|[1-9][0-9]{0,19}", value):
        raise ValueError
    return number(int(value))


def hexes(value):
    if type(value) is not list:
        raise ValueError
    for one in value:
        if not re.fullmatch(HEX, one):
            raise ValueError
    return [bytes.fromhex(one) for one in value]


def parsed(data, read, made):
    """The value of a JSON file that is written exactly as `made` writes it."""
    try:
        value = json.loads(data.decode("utf-8"))
        read(value)
        if made(value).encode() == data:
            return value
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise Bad("is not written as this format writes it")


def of_version(data, form):
    match = re.match(br'\{"format":"%s","version":([1-9][0-9]{0,8}),' % form.encode(), data)
    if not match:
        raise Bad("is not of the format " + form)
    if int(match[1]) != VERSION:
        raise Bad("is of version %s, and this checks version %d" % (match[1].decode(), VERSION))


def read_manifest(value):
    has_keys(value, "format", "version", "origin", "journal", "host", "period", "bill", "first", "last", "size",
             "program", "files")
    period = has_keys(value["period"], "since_ms", "until_ms", "since", "until", "zone")
    bill = has_keys(value["bill"], "by", "share", "prices", "now_ms", "users")
    texts = [value[name] for name in ("origin", "journal", "host", "program")] + [bill["by"], bill["share"]]
    if not all(type(one) is str for one in texts + list(period.values()) + list(bill["users"].values())):
        raise ValueError
    decimal(period["since_ms"]), decimal(period["until_ms"]), decimal(bill["now_ms"])
    uids = list(map(decimal, bill["users"]))
    if any(a >= b for a, b in zip(uids, uids[1:])) or any(uid >> 32 for uid in uids):
        raise ValueError
    if bill["prices"] is not None and not re.fullmatch(HEX, bill["prices"]):
        raise ValueError
    number(value["first"]), number(value["last"]), number(value["size"])
    for file in value["files"]:
        has_keys(file, "name", "bytes", "sha256")
        decimal(file["bytes"])
        if type(file["name"]) is not str or not re.fullmatch(HEX, file["sha256"]):
            raise ValueError


def made_manifest(value):
    head = compact({name: what for name, what in value.items() if name != "files"})
    return head[:-1] + ',"files":[\n' + ",\n".join(map(compact, value["files"])) + "\n]}\n"


def read_range(value):
    has_keys(value, "format", "version", "first", "last", "size", "left", "right", "opening", "consistency")
    number(value["first"]), number(value["last"]), number(value["size"])
    hexes(value["left"]), hexes(value["right"])
    opening = has_keys(value["opening"], "booked", "unresolved")
    for one in opening["booked"]:
        has_keys(one, "gpu", "count", "held_ms")
        number(one["count"])
        if type(one["gpu"]) is not str or not re.fullmatch("0|[1-9][0-9]{0,38}", one["held_ms"]):
            raise ValueError
        if int(one["held_ms"]) >> 128:
            raise ValueError
    for seq in opening["unresolved"]:
        number(seq)
    for proof in value["consistency"]:
        has_keys(proof, "from", "to", "hashes")
        number(proof["from"]), number(proof["to"]), hexes(proof["hashes"])


def made_range(value):
    return compact(value) + "\n"


# ---- what entries say together ----

def wall(stamp):
    return int(stamp["wall"]["us"])


class Books:
    """What must hold between entries, and what of the period is not known. Those of context.jsonl come first, each by
    itself; then those of the range (`near`), in which everything follows."""

    def __init__(self, since, until, fault):
        self.since, self.until, self.fault = since, until, fault
        self.booked, self.open, self.elsewhere, self.over = {}, {}, {}, set()
        self.keys_seen = [bytearray() for _ in range(256)]
        self.settlements, self.held_ms, self.unknown, self.gaps, self.gaps_total = 0, 0, {}, [], 0
        self.agent_began, self.gpu_began, self.gpu_seen, self.marked = None, {}, {}, 0
        self.keys = []

    def opening(self, opening):
        """What the range begins with."""
        self.booked = {one["gpu"]: (one["count"], int(one["held_ms"])) for one in opening["booked"]}
        self.open = {seq: self.elsewhere.get(seq, NO_CONTEXT) for seq in opening["unresolved"]}

    def touches(self, begin, end):
        return begin < self.until and (end > self.since or begin == end >= self.since)

    def unknowns(self, what, about=None, held_ms=None):
        known = self.unknown.setdefault((what, about or ""), [0, None])
        known[0] += 1
        if held_ms is not None:
            known[1] = (known[1] or 0) + held_ms

    def take(self, line, near):
        told = lambda what: self.fault("entries.jsonl" if near else "context.jsonl", line.seq, what)
        figures, kind = line.figures, line.kind
        if kind == "settlement":
            self.settlement(line, near, told)
        elif kind == "open":
            (self.open if near else self.elsewhere)[line.seq] = wall(figures["first_seen"]["began"])
        elif kind == "correction" and "ended" in figures["change"]:
            self.ended(figures["of"], figures["change"]["ended"], near, told)
        elif kind == "conflict":
            self.unknowns("conflict")
        elif kind == "gap":
            self.gap(line.seq, figures)
        elif kind == "epoch" and "began" in figures["edge"]:
            self.earliest(self.gpu_began, figures["gpu"], wall(figures["at"]))
        elif kind == "coverage" and "began" in figures:
            at = wall(figures["began"]["at"])
            self.agent_began = at if self.agent_began is None else min(at, self.agent_began)
        elif kind == "mark":
            self.mark(figures, near, told)
        elif kind == "memory":
            if figures["voids"] and self.touches(int(figures["from"]["us"]), int(figures["to"]["us"])):
                self.unknowns("memory-void")
        elif kind == "key":
            self.keys.append((line.seq, figures, told))

    def settlement(self, line, near, told):
        figures = line.figures
        evidence = line.because.get("settlement")
        self.book(line.seq, figures, evidence)
        if near:
            self.sums(figures, told)
            if figures["opened"] is not None and self.open.pop(figures["opened"], None) is None:
                told("replaces an entry that is not open")
        else:
            self.over.add(figures["opened"])
        if evidence is None:
            told("is booked without a row of the driver")
            return
        row, peak = evidence["row"], evidence["row"]["memory_peak"].get("known")
        same = all(row[name] == figures[name] for name in ("gpu", "pid", "start", "held"))
        if not same or peak != figures["memory_peak"] or evidence["seen"]["ended"] != figures["read_at"]:
            told("its figures are not those of its row")
        if row["running"]:
            told("is booked of a row that is not final")
        if row["start"] is not None and row["start"]["us"] == "0":
            told("is booked of a row that began in 1970")

    def book(self, seq, figures, evidence):
        start, held = figures["start"], figures["held"]
        key = [figures["gpu"], figures["pid"], start["us"] if start else (evidence or {}).get("row")]
        digest = sha256(compact(key).encode())
        self.keys_seen[digest[0]] += digest[1:17] + seq.to_bytes(8, "big")
        begin = int(start["us"]) if start else wall(figures["read_at"])
        if not self.touches(begin, begin + held * 1000 if start else begin):
            return
        self.settlements, self.held_ms = self.settlements + 1, self.held_ms + held
        reason = figures["account"].get("unattributed")
        if reason:
            self.unknowns("unattributed", reason, held)
        if figures["dispute"]:
            self.unknowns("disputed", figures["dispute"], held)

    def sums(self, figures, told):
        count, held_ms = self.booked.get(figures["gpu"], (0, 0))
        said = (figures["booked"]["count"], int(figures["booked"]["held_ms"], 16))
        if said != (min(count + 1, U64), min(held_ms + figures["held"], (1 << 128) - 1)):
            told("the sums that it carries are not those of the entries before it")
        self.booked[figures["gpu"]] = said

    def ended(self, of, ended, near, told):
        first_seen = self.open.pop(of, None) if near else self.elsewhere.get(of, NO_CONTEXT)
        if first_seen is None:
            told("ends an entry that is not open")
            return
        if not near:
            self.over.add(of)
        first_seen = max(first_seen, 0)
        if self.touches(first_seen, max(first_seen, wall(ended["last_seen"]))):
            self.unknowns("lost" if ended["cause"] else "ended-unbooked", ended["cause"])

    def gap(self, seq, gap):
        if self.touches(wall(gap["from"]), max(wall(gap["from"]), wall(gap["to"]))):
            self.gaps_total += 1
            if len(self.gaps) < GAPS_TOLD_MAX:
                self.gaps.append({"seq": seq, "cause": gap["cause"], "gpu": gap["gpu"], "from": gap["from"]["wall"],
                                  "to": gap["to"]["wall"], "size": gap["size"]})

    def mark(self, mark, near, told):
        if near and mark["unresolved"] != sorted(self.open):
            told("lists other open entries than the entries before it leave open")
        self.marked = max(self.marked, wall(mark["processes_until"]))
        for gpu in mark["gpus"]:
            self.gpu_seen.setdefault(gpu["gpu"], 0)
            good, doubted = gpu["last_good"], gpu["doubted_since"]
            if good and (doubted is None or wall(doubted) >= self.until):
                self.gpu_seen[gpu["gpu"]] = max(self.gpu_seen[gpu["gpu"]], wall(good["ended"]))

    @staticmethod
    def earliest(known, name, at):
        known[name] = min(at, known.get(name, at))

    def end(self):
        """Rows that are booked twice, as numbers of the later entries; and what is unknown at the period's edges."""
        twice = []
        for records in self.keys_seen:
            first = {}
            for at in range(0, len(records), 24):
                key, seq = bytes(records[at:at + 16]), int.from_bytes(records[at + 16:at + 24], "big")
                if key in first:
                    twice.append(max(seq, first[key]))
                first[key] = min(seq, first.get(key, seq))
        for seq, began in self.open.items():
            if began == NO_CONTEXT:
                self.unknowns("no-context")
            elif began < self.until and seq not in self.over:
                self.unknowns("open")
        # A period since ever is one from where the journal begins.
        late = lambda began: began > self.since > 0
        if self.agent_began is None or late(self.agent_began):
            self.unknowns("not-seen-from-beginning")
        if self.marked < self.until:
            self.unknowns("not-seen-to-end")
        for gpu in sorted(set(self.gpu_began) | set(self.gpu_seen)):
            if gpu not in self.gpu_began or late(self.gpu_began[gpu]):
                self.unknowns("not-seen-from-beginning", gpu)
            if self.gpu_seen.get(gpu, 0) < self.until:
                self.unknowns("not-seen-to-end", gpu)
        return sorted(twice)

    def told(self):
        """What is not known, in order."""
        return [{"what": what, "about": about or None, "count": count,
                 "held_ms": None if held_ms is None else str(held_ms)}
                for (what, about), (count, held_ms) in sorted(self.unknown.items())]


# ---- all of it ----

class Verification:
    """Everything that is checked of a bundle, in the order in which it is told."""

    def __init__(self, folder, key=None, witness=None, faults_max=None):
        self.folder, self.given, self.witness_note, self.faults_max = folder, key, witness, faults_max
        self.faults, self.faults_total, self.witness, self.manifest, self.books = [], 0, None, None, None
        self.before_first = self.after_last = self.learnt = None
        self.whole = False
        try:
            self.check()
        except Stop:
            pass

    def fault(self, file, seq, what):
        self.faults_total += 1
        if len(self.faults) < FAULTS_TOLD_MAX:
            self.faults.append({"file": file, "seq": seq, "what": what})
        if self.faults_max and self.faults_total >= self.faults_max:
            raise Stop

    def tried(self, file, check, *arguments):
        """What a check comes to; None where it found a fault."""
        try:
            return check(*arguments)
        except Bad as bad:
            self.fault(file, None, str(bad))
        except OSError:
            self.fault(file, None, "cannot be read")
        return None

    def check(self):
        found = self.tried(".", self.listed)
        self.manifest = found is not None and self.tried("manifest.json", self.read_manifest, found) or None
        if not self.manifest:
            return
        self.key = self.tried("key.pub", self.read_key)
        if self.key:
            self.tried("manifest.sig", self.check_manifest)
        self.files(found)
        if not self.key:
            return
        self.point = self.tried("checkpoint", self.read_checkpoint)
        ranged = self.tried("range.json", self.read_range)
        decoder = self.tried("schema.json", self.read_schema)
        if not (self.point and ranged and decoder):
            return
        period = self.manifest["period"]
        self.books = Books(decimal(period["since_ms"]) * 1000, decimal(period["until_ms"]) * 1000, self.fault)
        self.tried("context.jsonl", self.context, decoder)
        self.books.opening(ranged["opening"])
        self.tried("entries.jsonl", self.entries, decoder, ranged)
        if self.whole and self.learnt is None:
            self.fault("context.jsonl", self.manifest["size"], "is missing")
        for seq in self.books.end():
            near = self.manifest["first"] <= seq <= self.manifest["last"]
            self.fault("entries.jsonl" if near else "context.jsonl", seq, "books a row that is booked already")
        self.check_keys()
        self.check_witness(ranged)

    def listed(self):
        try:
            return self.folder.files()
        except FileNotFoundError:
            raise Bad("is not there") from None
        except NotADirectoryError:
            raise Bad("is not a folder") from None

    def plain(self, name, found):
        if name not in found:
            raise Bad("is missing")
        if not found[name]:
            raise Bad("is not a plain file")

    def read_manifest(self, found):
        self.plain("manifest.json", found)
        data = self.folder.small("manifest.json")
        of_version(data, "gpu-ledger-audit")
        manifest = parsed(data, read_manifest, made_manifest)
        self.manifest_digest = sha256(data).hex()
        names = [file["name"] for file in manifest["files"]]
        if len(names) > FILES_MAX:
            raise Bad("names more files than a bundle has")
        for name in names:
            if not NAME.fullmatch(name) or name in ("manifest.json", "manifest.sig"):
                raise Bad("names a file that no bundle has: " + shown(name))
        if any(a >= b for a, b in zip(names, names[1:])):
            raise Bad("does not name its files in order, each once")
        for name in NEEDED:
            if name not in names:
                raise Bad("does not name " + name)
        if not 1 <= manifest["first"] <= manifest["last"] <= manifest["size"] < 1 << 63:
            raise Bad("has a range that no journal has")
        if decimal(manifest["period"]["since_ms"]) >= decimal(manifest["period"]["until_ms"]):
            raise Bad("has a period that ends before it begins")
        return manifest

    def read_key(self):
        data = self.folder.small("key.pub")
        if data[-1:] != b"\n":
            raise Bad("is not a key: name+id+base64")
        key = Key(data[:-1].decode("latin-1"))
        if key.name != self.manifest["origin"]:
            raise Bad("is the key of another journal")
        return key

    def check_manifest(self):
        text = opened(self.folder.small("manifest.sig"), [self.key], True)
        if text != "gpu-ledger audit manifest v1\n%s\n" % self.manifest_digest:
            raise Bad("signs another manifest")

    def files(self, found):
        """Every file is there, as the manifest says, and no other."""
        named = {"manifest.json", "manifest.sig"}
        for file in self.manifest["files"]:
            named.add(file["name"])
            self.tried(file["name"], self.file, file, found)
        for name in sorted(set(found) - named, key=os.fsencode):
            self.fault(shown(name), None, "is not in the manifest")

    def file(self, file, found):
        name = file["name"]
        self.plain(name, found)
        with self.folder.open(name) as opened_file:
            if opened_file.seek(0, os.SEEK_END) != decimal(file["bytes"]):
                raise Bad("has another size than the manifest says")
            opened_file.seek(0)
            digest = hashlib.sha256()
            while block := opened_file.read(BLOCK):
                digest.update(block)
        if digest.hexdigest() != file["sha256"]:
            raise Bad("has other bytes than the manifest says")
        named = re.fullmatch("(?:rules|prices)/(%s)\\.toml" % HEX, name)
        if named and named[1] != file["sha256"]:
            raise Bad("is not the file of that name")

    def read_checkpoint(self):
        point = checkpoint(opened(self.folder.small("checkpoint"), [self.key], True))
        if point[0] != self.manifest["origin"]:
            raise Bad("is of another journal")
        if point[1] != self.manifest["size"]:
            raise Bad("is of another size than the manifest says")
        return point

    def read_range(self):
        data = self.folder.small("range.json")
        of_version(data, "gpu-ledger-audit-range")
        ranged, manifest = parsed(data, read_range, made_range), self.manifest
        if any(ranged[name] != manifest[name] for name in ("first", "last", "size")):
            raise Bad("is of another range than the manifest says")
        sizes = list(subtrees(0, ranged["first"] - 1)), list(subtrees(ranged["last"], ranged["size"]))
        if len(sizes[0]) != len(ranged["left"]) or len(sizes[1]) != len(ranged["right"]):
            raise Bad("has not as many hashes as the range needs")
        opening = ranged["opening"]
        unresolved, gpus = opening["unresolved"], [one["gpu"] for one in opening["booked"]]
        if any(a >= b for a, b in zip(unresolved, unresolved[1:])) or any(a >= b for a, b in zip(gpus, gpus[1:])):
            raise Bad("has an opening that is not in order")
        if unresolved and not 1 <= unresolved[0] <= unresolved[-1] < ranged["first"]:
            raise Bad("has an opening that is not of entries before the range")
        return ranged

    def read_schema(self):
        return decoder_of(self.folder.small("schema.json"))

    def context(self, decoder):
        first, last, size = self.manifest["first"], self.manifest["last"], self.manifest["size"]
        seq, digest = 0, "0" * 64
        with self.folder.open("context.jsonl") as file:
            for text in lines(file):
                line = Line(text, decoder, True)
                if not seq < line.seq <= size or first <= line.seq <= last:
                    raise Bad("has entries that are not in order, or not its own")
                if not included(line.leaf, line.seq - 1, size, line.proof, self.point[2]):
                    self.fault("context.jsonl", line.seq, "is not in the tree of the checkpoint")
                if line.seq == seq + 1 and line.previous != digest:
                    self.fault("context.jsonl", line.seq, "does not follow the entry before it")
                seq, digest = line.seq, line.hash
                if seq == first - 1:
                    self.before_first = digest
                if seq == last + 1:
                    self.after_last = line.previous
                if seq == size:
                    self.learnt = line.at
                self.books.take(line, False)

    def entries(self, decoder, ranged):
        first, last, size = self.manifest["first"], self.manifest["last"], self.manifest["size"]
        asked = []
        for _, data in self.witnesses():
            try:
                asked.append(checkpoint(note(data)[0])[1])
            except Bad:
                pass
        self.tree = Tree(asked)
        for count, digest in zip(subtrees(0, first - 1), hexes(ranged["left"])):
            self.tree.push(count, digest)
        seq, digest = first - 1, "0" * 64 if first == 1 else self.before_first
        with self.folder.open("entries.jsonl") as file:
            try:
                for text in lines(file):
                    line = Line(text, decoder, False)
                    if seq == last:
                        raise Bad("has entries after its last")
                    if line.seq != seq + 1:
                        raise Bad("stands where another entry must")
                    if digest is not None and line.previous != digest:
                        raise Bad("does not follow the entry before it")
                    seq, digest = line.seq, line.hash
                    self.tree.push(1, line.leaf)
                    if seq == size:
                        self.learnt = line.at
                    self.books.take(line, True)
                if seq != last:
                    raise Bad("ends before its last entry")
                if self.after_last not in (None, digest):
                    raise Bad("is followed by another entry")
            except Bad as bad:
                self.fault("entries.jsonl", min(seq + 1, last), str(bad))
                return
        for count, digest in zip(subtrees(last, size), hexes(ranged["right"])):
            self.tree.push(count, digest)
        if self.tree.root() != self.point[2]:
            self.fault("checkpoint", None, "has another root than its entries")
        self.whole = True

    def check_keys(self):
        """Every key was signed by the one before it, and the last one is the bundle's."""
        before, own = None, {self.key.text: self.key}
        self.keys, leading = dict(own), dict(own)
        for _, change, told in sorted(self.books.keys, key=lambda one: one[0]):
            try:
                key = Key(change["key"])
                if before is not None and change["previous"] != before:
                    raise Bad("does not name the key before it")
                if change["previous"] is not None:
                    previous = Key(change["previous"])
                    if change["signature"] is None:
                        self.books.unknowns("key-lost")
                        leading = dict(own)
                    elif previous.signed(KEY_CHANGE % (previous.text, key.text), base64.b64decode(change["signature"])):
                        leading[previous.text] = previous
                    else:
                        raise Bad("is a key that the one before it did not sign")
                    self.keys[previous.text] = previous
                self.keys[key.text] = leading[key.text] = key
                before = key.text
            except Bad as bad:
                told(str(bad))
        if before not in (None, self.key.text):
            self.fault("key.pub", None, "is not the key that the entries name last")
        if self.given is not None and self.given not in leading:
            self.fault("key.pub", None, "is not the key that was given, and no entry leads from that to it")

    def witnesses(self):
        """Older checkpoints: the one that the bundle was made with, and the one that was given."""
        known = []
        if any(file["name"] == "witness" for file in self.manifest["files"]):
            data = self.tried("witness", self.folder.small, "witness")
            known += [("witness", data)] if data is not None else []
        return known + ([(WITNESS_GIVEN, self.witness_note)] if self.witness_note is not None else [])

    def check_witness(self, ranged):
        for file, data in self.witnesses():
            verdict = self.tried(file, self.meets, data, ranged)
            if file == WITNESS_GIVEN:
                self.witness = verdict or "inconsistent"

    def meets(self, data, ranged):
        """Whether an older checkpoint is of the same journal."""
        origin, size, root = checkpoint(opened(data, list(self.keys.values()), False))
        if origin != self.point[0]:
            raise Bad("is of another journal")
        if size > self.point[1]:
            raise Bad("is of a longer journal: the end of this one was cut off, or it was written anew")
        if size == 0 or size in self.tree.roots and self.whole:
            same = root == (self.tree.roots[size] if size else sha256(b""))
        else:
            proofs = [proof for proof in ranged["consistency"] if proof["from"] == size]
            if not proofs:
                return "witness-not-provable"
            same = consistent(size, root, self.point[1], self.point[2], hexes(proofs[0]["hashes"]))
        if not same:
            raise Bad("has another root: the journal was changed after it")
        return "consistent"

    def verdict(self):
        """Everything that is said, as it is printed with --json."""
        good, manifest, books = self.faults_total == 0, self.manifest, self.books
        page = {"format": "gpu-ledger-audit-verdict", "version": 1, "of": "bundle", "bundle": None,
                "integrity": {"verdict": "good" if good else "failed", "faults": self.faults,
                              "faults_total": self.faults_total},
                "completeness": None, "freshness": None,
                "key": {"verdict": "not-given" if self.given is None else "given", "vkey": None},
                "witness": "not-given" if self.witness_note is None else self.witness}
        if good:
            unknown = books.told()
            page["bundle"] = {
                "origin": manifest["origin"], "host": manifest["host"], "since": manifest["period"]["since"],
                "until": manifest["period"]["until"], "first": manifest["first"], "last": manifest["last"],
                "size": manifest["size"], "settlements": books.settlements, "held_ms": str(books.held_ms)}
            page["completeness"] = {"verdict": "incomplete" if unknown or books.gaps_total else "complete",
                                    "gaps": books.gaps, "gaps_total": books.gaps_total, "unknown": unknown}
            seen = not any(one["what"] == "not-seen-to-end" for one in unknown)
            page["freshness"] = {"seq": manifest["size"], "learnt": self.learnt["stamp"]["wall"],
                                 "period_seen_to_end": seen}
            page["key"]["vkey"] = self.key.text
        return page


class Proof:
    """The file of `audit prove`: one settlement, and that it is in the tree of a signed checkpoint."""

    def __init__(self, data, key=None, witness=None):
        self.fault, self.given, self.witness_note = None, key, witness
        try:
            self.check(data)
        except Bad as bad:
            self.fault = str(bad)

    def check(self, data):
        if len(data) > SMALL_MAX:
            raise Bad("is larger than 16 MiB")
        of_version(data, "gpu-ledger-audit-proof")
        parts = re.fullmatch(br'(\{"format":"gpu-ledger-audit-proof","version":1,"key":"[^"\n]*",'
                             br'"checkpoint":"[^"\n]*"),\n'
                             br'"entry":([^\n]*),\n"schema":([^\n]*)\}\n', data)
        try:
            head = json.loads(parts[1] + b"}") if parts else None
            if not parts or compact(head).encode() != parts[1] + b"}":
                raise Bad("is not written as this format writes it")
        except (ValueError, RecursionError):
            raise Bad("is not written as this format writes it") from None
        decoder = decoder_of(parts[3] + b"\n")
        self.key = Key(head["key"])
        origin, self.size, root = checkpoint(opened(head["checkpoint"].encode(), [self.key], True))
        if origin != self.key.name:
            raise Bad("is of another journal")
        self.line = Line(parts[2], decoder, True)
        if not 1 <= self.line.seq <= self.size or not included(
                self.line.leaf, self.line.seq - 1, self.size, self.line.proof, root):
            raise Bad("is not in the tree of the checkpoint")
        faults = []
        books = Books(0, U64, lambda file, seq, what: faults.append(what))
        if self.line.kind != "settlement":
            raise Bad("is not of a settlement")
        books.take(self.line, False)
        if faults:
            raise Bad(faults[0])
        if self.given not in (None, self.key.text):
            raise Bad("is not signed by the key that was given")
        if self.witness_note is not None:
            known = checkpoint(opened(self.witness_note, [self.key], False))
            if known[0] != origin or known[1] == self.size and known[2] != root:
                raise Bad("has another root than the witness")
            self.same = known[1] == self.size

    def verdict(self):
        good = self.fault is None
        faults = [] if good else [{"file": ".", "seq": None, "what": self.fault}]
        page = {"format": "gpu-ledger-audit-verdict", "version": 1, "of": "proof", "bundle": None,
                "integrity": {"verdict": "good" if good else "failed", "faults": faults, "faults_total": len(faults)},
                "completeness": None, "freshness": None,
                "key": {"verdict": "not-given" if self.given is None else "given", "vkey": None},
                "witness": "not-given" if self.witness_note is None else None}
        if good:
            page["key"]["vkey"] = self.key.text
            if self.witness_note is not None:
                page["witness"] = "consistent" if self.same else "witness-not-provable"
            figures = self.line.figures
            page["freshness"] = {"seq": self.size, "learnt": self.line.at["stamp"]["wall"], "period_seen_to_end": None}
            page["settlement"] = {"seq": self.line.seq, "gpu": figures["gpu"], "pid": figures["pid"],
                                  "start": figures["start"], "held_ms": figures["held"]}
        return page


# ---- what is printed ----

def shown_moment(told):
    return told["at"] or told["us"] + " us since 1970"


def text(page):
    """The verdict for people."""
    integrity, complete, fresh = page["integrity"], page["completeness"], page["freshness"]
    out = ["integrity: " + integrity["verdict"]]
    for fault in integrity["faults"]:
        seq = "" if fault["seq"] is None else " entry %d:" % fault["seq"]
        out.append("  %s:%s %s" % (fault["file"], seq, fault["what"]))
    if integrity["faults_total"] > len(integrity["faults"]):
        out.append("  and %d more" % (integrity["faults_total"] - len(integrity["faults"])))
    if complete:
        out.append("completeness: " + complete["verdict"])
        for gap in complete["gaps"]:
            size = "unknown" if gap["size"] is None else gap["size"]
            out.append("  gap %s of %s from %s to %s, size %s (entry %d)" % (
                gap["cause"], shown(gap["gpu"] or "every GPU"), shown_moment(gap["from"]), shown_moment(gap["to"]), size, gap["seq"]))
        if complete["gaps_total"] > len(complete["gaps"]):
            out.append("  and %d more gaps" % (complete["gaps_total"] - len(complete["gaps"])))
        for one in complete["unknown"]:
            about = " " + shown(one["about"]) if one["about"] else ""
            held = "" if one["held_ms"] is None else ", %s ms" % one["held_ms"]
            out.append("  %s%s: %d%s" % (one["what"], about, one["count"], held))
    if fresh:
        out.append("freshness: the journal speaks up to %s (entry %d)" % (shown_moment(fresh["learnt"]), fresh["seq"]))
        if fresh["period_seen_to_end"] is not None:
            out.append("  the period was %sseen to its end" % ("" if fresh["period_seen_to_end"] else "not "))
    if page["key"]["verdict"] == "given":
        out.append("key: given")
    else:
        out.append("key: not given; the bundle's own was used, and whoever can sign can make another bundle")
    out.append("witness: " + (page["witness"] or "not looked at").replace("-", " "))
    return "\n".join(out) + "\n"


def status(page):
    if page["integrity"]["verdict"] != "good":
        return 1
    complete = page["completeness"]
    return 2 if complete and complete["verdict"] != "complete" else 0


def key_of(word):
    """A key, as text or as a file that holds it."""
    try:
        if os.path.isfile(word):
            with open(word, "rb") as file:
                word = file.read(4096).decode("utf-8").removesuffix("\n")
        return Key(word).text
    except (Bad, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError("%s: %s" % (shown(word), error)) from None


def note_of(word):
    try:
        with open(word, "rb") as file:
            return file.read((1 << 18) + 1)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError("%s: %s" % (shown(word), error)) from None


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(64, "verify.py: %s\n" % message)


def verified(path, key=None, witness=None):
    """The verdict on a bundle's folder, or on a file of `audit prove`."""
    if os.path.isfile(path):
        data = b""
        try:
            with open(path, "rb") as file:
                data = file.read(SMALL_MAX + 1)
        except OSError:
            pass
        return Proof(data, key, witness).verdict()
    return Verification(Folder(path), key, witness).verdict()


def main():
    parser = Parser(description="Checks an audit bundle of gpu-ledger, or one proven settlement.")
    parser.add_argument("bundle", nargs="?", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--key", type=key_of, help="the key that must have signed: its text, or a file with it")
    parser.add_argument("--witness", type=note_of, metavar="FILE", help="an older checkpoint of the same journal")
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    page = verified(arguments.bundle, arguments.key, arguments.witness)
    sys.stdout.write(json.dumps(page, separators=(",", ":")) + "\n" if arguments.json else text(page))
    return status(page)


if __name__ == "__main__":
    sys.exit(main())
