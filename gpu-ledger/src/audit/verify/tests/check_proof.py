import base64, hashlib, json, re, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

sha = lambda data: hashlib.sha256(data).digest()
atom = lambda data: b"A" + len(data).to_bytes(4, "big") + data
page = json.load(open(sys.argv[1]))
entry, key = page["entry"], base64.b64decode(page["key"].split("+", 2)[2])[1:]
text, signature = page["checkpoint"].split("\n\n")
Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature.split()[-1])[4:], text.encode() + b"\n")
size, root = int(text.split("\n")[1]), base64.b64decode(text.split("\n")[2])
body, evidence = base64.b64decode(entry["body"]), base64.b64decode(entry["evidence"])
parts = [b"gpu-ledger entry", (1).to_bytes(4, "big"), entry["seq"].to_bytes(8, "big"), bytes.fromhex(entry["previous"])]
inner = b"".join(map(atom, parts + [body, sha(evidence)]))
node, at, last = sha(b"\0L" + len(inner).to_bytes(4, "big") + inner), entry["seq"] - 1, size - 1
for step in map(bytes.fromhex, entry["proof"]):
    node = sha(b"\1" + (step + node if at & 1 or at == last else node + step))
    while not at & 1 and at == last and at:
        at, last = at >> 1, last >> 1
    at, last = at >> 1, last >> 1
assert node == root and last == 0, "it is not in the journal"
print("entry %d is in the journal of %d entries that %s signed" % (entry["seq"], size, page["key"]))
