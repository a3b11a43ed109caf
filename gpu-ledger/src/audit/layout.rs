//! Names, versions and limits of a bundle.

/// The word of the format.
pub const FORMAT: &str = "gpu-ledger-audit";
/// That of `range.json`.
pub const RANGE_FORMAT: &str = "gpu-ledger-audit-range";
/// The version of both.
pub const VERSION: u32 = 1;

/// What the bundle is of, and every other file with its SHA-256.
pub const MANIFEST: &str = "manifest.json";
/// The signed note that has the manifest's SHA-256.
pub const MANIFEST_SIG: &str = "manifest.sig";
/// The verifier key, one line.
pub const KEY: &str = "key.pub";
/// The signed checkpoint.
pub const CHECKPOINT: &str = "checkpoint";
/// What is known of the tree and the sums beside the range.
pub const RANGE: &str = "range.json";
/// An older checkpoint that this one continues.
pub const WITNESS: &str = "witness";
/// The range.
pub const ENTRIES: &str = "entries.jsonl";
/// Entries beside it, each with its proof.
pub const CONTEXT: &str = "context.jsonl";
/// The range as a table.
pub const PARQUET: &str = "entries.parquet";
/// Arguments that are still kept.
pub const ARGV: &str = "argv.jsonl";
/// The bill, in its forms.
pub const BILL_JSON: &str = "bill.json";
/// A line each.
pub const BILL_CSV: &str = "bill.csv";
/// For people.
pub const BILL_TXT: &str = "bill.txt";
/// A workbook.
pub const BILL_XLSX: &str = "bill.xlsx";
/// In money, in the columns of FOCUS; only where there are prices.
pub const BILL_FOCUS: &str = "bill.focus.csv";
/// The forms of entries.
pub const SCHEMA: &str = "schema.json";
/// Checks it all without this program.
pub const VERIFY: &str = "verify.py";
/// Checks sums in SQL.
pub const CHECKS: &str = "checks.sql";
/// What is what.
pub const README: &str = "readme.md";
/// Files of rules that entries name, by their SHA-256.
pub const RULES_DIR: &str = "rules";
/// The file of prices, by its SHA-256.
pub const PRICES_DIR: &str = "prices";

/// What is signed of a manifest.
pub const MANIFEST_DOMAIN: &str = "gpu-ledger audit manifest v1";

/// Bytes of a line at most, its end not counted.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a file that is read at once, at most.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Files of a bundle at most, beside its manifest and that one's signature.
pub const FILES_MAX: usize = 4_096;

/// Whether a manifest may name a file so: nothing that could lead out of the folder, or be hidden in it.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(is_letter)
            && part.chars().all(|c| is_letter(c) || matches!(c, '.' | '_' | '-'))
    };
    let is_own = matches!(name, MANIFEST | MANIFEST_SIG);
    !is_own && name.split('/').count() <= 2 && name.split('/').all(is_part)
}

/// The text of `manifest.sig`'s note, over the manifest's SHA-256.
#[must_use]
pub fn manifest_text(digest: crate::journal::Digest) -> String {
    format!("{MANIFEST_DOMAIN}\n{digest}\n")
}
