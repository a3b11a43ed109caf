//! `readme.md` of a bundle.

use std::fmt::Write as _;

use crate::audit::layout::{self, MANIFEST, MANIFEST_SIG};
use crate::audit::manifest::Listed;

/// What the README says of this bundle.
pub(super) struct About<'a> {
    pub(super) host: &'a str,
    pub(super) origin: &'a str,
    pub(super) since: &'a str,
    pub(super) until: &'a str,
    pub(super) range: (u64, u64, u64),
    pub(super) root: String,
    pub(super) key: String,
    pub(super) files: &'a [Listed],
}

/// What a file is; `None` of a name that no bundle has.
fn what_is(name: &str) -> Option<&'static str> {
    if name.starts_with(layout::RULES_DIR) {
        return Some(
            "rules of attribution that were in force; its name is its SHA-256, which settlements name",
        );
    }
    if name.starts_with(layout::PRICES_DIR) {
        return Some("the prices that the bill goes by; its name is its SHA-256");
    }
    Some(match name {
        layout::KEY => {
            "the key that signed checkpoint and manifest (a verifier key of C2SP signed-note, Ed25519)"
        }
        layout::CHECKPOINT => "the signed head of the tree of all entries (C2SP tlog-checkpoint)",
        layout::RANGE => {
            "hashes of the tree left and right of the range, and what was booked and open before it"
        }
        layout::WITNESS => "an older checkpoint that this one continues; range.json has the proof",
        layout::ENTRIES => "the entries of the range, a line each, without a hole",
        layout::CONTEXT => {
            "further entries that the bill reads, each with its proof that it is in the tree"
        }
        layout::PARQUET => {
            "the entries of the range as a table, for SQL; what it has no place for is in entries.jsonl"
        }
        layout::ARGV => {
            "command lines that entries commit to, as far as they are still kept; one that comes late may come twice"
        }
        layout::BILL_JSON => "the bill",
        layout::BILL_CSV => "its lines, for a spreadsheet",
        layout::BILL_XLSX => "the bill as a workbook, with its totals as formulas",
        layout::BILL_TXT => "the bill, for people",
        layout::BILL_FOCUS => "the bill in money, in the columns of FOCUS",
        layout::SCHEMA => "the form of entries: by it body and evidence are decoded",
        layout::VERIFY => {
            "checks all of it without gpu-ledger: Python 3 and its package `cryptography`"
        }
        layout::CHECKS => "sums, uniqueness, gaps and cut-off in SQL, for DuckDB",
        layout::README => "this",
        _ => return None,
    })
}

const CHECK: &str = "
## How to check it

```
gpu-ledger audit verify . --key KEY --witness OLD_CHECKPOINT
python3 verify.py . --key KEY --witness OLD_CHECKPOINT
```
KEY is the key above, as you got it from the host's owner by another way than this folder; without it you know only that
the folder is in itself consistent. OLD_CHECKPOINT is a checkpoint that you, or somebody you trust, kept from before: the
host prints one a minute into its log. With it you know that nothing up to then was changed or cut off. `gpu-ledger audit
replay .` makes the bill again from the entries and the rules, and compares every byte.

## Words

- An **entry** is a numbered, hash-chained record: a *settlement* (a process's final row of the driver, booked once), an
  *open* holder, a *correction*, a *conflict*, a *gap* (an interval that could not be seen), an *epoch* (the GPU's accounting
  is on from here, or was lost), *coverage* (the agent began or ended), a *mark* (up to here everything was seen), *memory*
  held, a *key* (which signs from here on), a *closed* period.
- `body` and `evidence` of a line are canonical bytes in base64; `entry` and `because` say the same for people, made of them.
  An atom is `A`, four bytes of length, big-endian, and that many bytes; a list is `L`, length and values. What stands where
  says `schema.json`: a form is `number4`, `number8`, `number16` (big-endian; that of 16 bytes is hexadecimal text in JSON),
  `bool` (`yes`, `no`), `text` (UTF-8), `bytes` (base64 in JSON), `digest` (hexadecimal), `time` (a list of one number8:
  microseconds since 1970; in JSON `at`, null past the year 9999, and `us`), `{\"word\":[…]}` (text of a closed list),
  `{\"maybe\":F}` (a list of none or one; null), `{\"list\":F}`, `{\"set\":F}` (ascending in the list's order), `{\"pair\":[F,F]}`,
  `{\"record\":\"Name\"}` (a list of the fields that `records` has; a last one may be left out, which is null), `{\"tagged\":{…}}` (a list
  of a word and its fields; in JSON an object of one member). A record or word whose one field is called `0` is that field.
- `hash` is the SHA-256 of the canonical list (`gpu-ledger entry`, 1 as number4, seq as number8, previous, body, SHA-256 of
  evidence); the **leaf** of the entry is the SHA-256 of a zero byte and the same list, and entry *n* is leaf *n* − 1 of the
  tree of RFC 6962.
- Times are RFC 3339 with offset, beside the raw microseconds as text. Milliseconds, counts and numbers of entries are numbers.

## What it cannot prove

- **Whoever is root on the host can write every entry after the last checkpoint that somebody else kept anew**, key and all.
  What was cut off the end since then is missed by nobody either. Checkpoints that lie elsewhere are what binds the host.
- That the driver told the truth, or that the agent ran: what it could not see is said as gaps, and as UNKNOWN.
- Command lines that were removed on request (`journal redact`) cannot be told from their commitments; the proofs hold without
  them. From a bundle that was handed out nothing can be removed.
";

/// The text.
pub(super) fn readme(about: &About<'_>) -> String {
    let About { host, origin, since, until, range: (first, last, size), root, key, files } = about;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# GPU bill of {since} to {until}, with everything that it is made of\n\n\
         | | |\n|---|---|\n| host | {} |\n| journal | `{origin}` |\n| key | `{key}` |\n\
         | entries | {first} to {last} of {size} |\n| root of the tree | `{root}` |\n\n## Files\n\n| file | is |\n|---|---|\n",
        crate::escape::escape_markup(host.as_bytes()),
    );
    let own = [
        (MANIFEST, "what this is of, and the SHA-256 of every other file"),
        (MANIFEST_SIG, "the signature over that file's SHA-256"),
    ];
    let listed = files.iter().filter_map(|file| Some((file.name.as_str(), what_is(&file.name)?)));
    for (name, what) in own.into_iter().chain(listed) {
        let _ = writeln!(text, "| `{name}` | {what} |");
    }
    text.push_str(CHECK);
    text
}
