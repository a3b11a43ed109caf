//! A status put into words, of at most 80 columns.

use std::fmt::Write as _;

use serde_json::Value;

use crate::bill::Shown;
use crate::escape::printable;
use crate::rendering::clip;
use crate::settlement::NamedBy;
use crate::unit::{Bytes, Ms};

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns of an account's name.
const NAME_WIDTH: usize = 26;

/// A status for people.
pub(crate) fn status_text(status: &Value) -> String {
    let mut page = Page::default();
    let text = |path: &str| word(status.pointer(path));
    page.line(&format!("gpu-ledger on {} at {}", clip(&text("/host"), 38), text("/as_of")));
    match status.get("daemon") {
        Some(Value::Object(_)) => page.line(&format!(
            "  daemon {} version {}, {}",
            text("/daemon/pid"),
            text("/daemon/version"),
            if status.pointer("/daemon/ready") == Some(&Value::Bool(true)) {
                "ready"
            } else {
                "starting"
            }
        )),
        _ => page.line("  no daemon answers; this is what the journal says"),
    }
    for reason in list(status, "/health/reasons") {
        let (what, detail) = (word(reason.get("reason")), word(reason.get("detail")));
        page.wrapped("  NOT WELL ", &format!("{what}: {detail}"));
    }
    if status.pointer("/reload_refused").is_some_and(Value::is_object) {
        let error = match status.pointer("/reload_refused/error") {
            Some(Value::String(error)) => safe(error),
            _ => "why is told to root and the daemon's group alone".to_owned(),
        };
        page.wrapped(&format!("  RELOAD REFUSED {}: ", text("/reload_refused/at")), &error);
    }
    if let Some(Value::String(since)) = status.pointer("/reloading_since") {
        let files =
            "configuration and rules are being read; what is told below is in force until then";
        page.wrapped(&format!("  RELOADING since {}: ", safe(since)), files);
    }
    page.line(&format!(
        "watched since {} until {}",
        text("/coverage/began"),
        text("/coverage/until")
    ));
    if status.pointer("/coverage/event_gaps").is_some_and(Value::is_number) {
        page.line(&format!(
            "  {} gaps in process events since then, {} events lost",
            text("/coverage/event_gaps"),
            text("/coverage/events_lost")
        ));
    }
    write_journal_gaps(&mut page, status);
    if let Some(Value::String(why)) = status.pointer("/coverage/device_touch_off_because") {
        page.wrapped("  device-touch off: ", &safe(why));
    }
    write_rules(&mut page, status);
    let holders = list(status, "/open").into_iter().chain(list(status, "/no_driver_row"));
    let shown = Shown::of_accounts(holders.filter_map(called));
    for gpu in list(status, "/gpus") {
        write_gpu(&mut page, status, gpu, &shown);
    }
    for note in list(status, "/notes") {
        page.wrapped("note ", &format!("{} {}", word(note.get("at")), word(note.get("note"))));
    }
    page.line(&format!("journal {}", clip(&text("/journal/state_dir"), WIDTH - 8)));
    page.line(&format!(
        "  {} settlements, {} open, entry {} {}",
        text("/journal/settlements"),
        text("/journal/unresolved"),
        text("/journal/head_seq"),
        text("/journal/head_hash").get(..16).unwrap_or("")
    ));
    write_checkpoint(&mut page, status);
    write_unknown(&mut page, status);
    page.text
}

/// How far the journal's tree is signed.
fn write_checkpoint(page: &mut Page, status: &Value) {
    let Some(Value::Object(checkpoint)) = status.get("checkpoint") else { return };
    let of = |name: &str| word(checkpoint.get(name));
    match checkpoint.get("size") {
        Some(Value::Number(_)) => page.wrapped(
            "checkpoint ",
            &format!(
                "of {} entries, signed {} ago by key {}; {} entries since",
                of("size"),
                time(checkpoint.get("age_ms")),
                of("key_id"),
                of("uncovered")
            ),
        ),
        _ => page.wrapped(
            "checkpoint ",
            &format!("UNKNOWN or none yet, by key {}; {} entries", of("key_id"), of("uncovered")),
        ),
    }
    for (name, words) in [("refused", "  NOT SIGNED: "), ("unknown", "  NOT SIGNED, UNKNOWN: ")] {
        if let Some(Value::String(why)) = checkpoint.get(name) {
            page.wrapped(words, &safe(why));
        }
    }
    let Some(Value::Object(anchors)) = checkpoint.get("anchors") else { return };
    let outlet = |name: &str| {
        let Some(Value::Object(outlet)) = anchors.get(name) else { return "unknown".to_owned() };
        match (outlet.get("lack"), outlet.get("on")) {
            (Some(Value::String(why)), _) => {
                format!("FAILS ({} so far: {})", word(outlet.get("failed")), safe(why))
            }
            (_, Some(Value::Bool(true))) => "on".to_owned(),
            (_, Some(Value::Bool(false))) => "off".to_owned(),
            _ => "none sent yet".to_owned(),
        }
    };
    let told = format!("system log {}, file {}", outlet("syslog"), outlet("file"));
    page.wrapped("  outside anchors: ", &told);
}

/// What is UNKNOWN, a line each.
fn write_unknown(page: &mut Page, status: &Value) {
    let unknown = list(status, "/unknown");
    if unknown.is_empty() {
        page.line("unknown 0");
    }
    for one in unknown {
        let of = |name: &str| one.get(name).filter(|value| !value.is_null());
        let or_none = |name: &str| of(name).map_or("-".to_owned(), |value| word(Some(value)));
        page.line(&format!(
            "GPU_LEDGER_UNKNOWN reason={} gpu={} call={} code={}",
            word(one.get("reason")),
            or_none("gpu_uuid"),
            or_none("call"),
            or_none("code")
        ));
    }
}

/// Every gap in the journal, by cause.
fn write_journal_gaps(page: &mut Page, status: &Value) {
    if !status.pointer("/coverage/journal_gaps").is_some_and(Value::is_array) {
        return;
    }
    let gaps = list(status, "/coverage/journal_gaps");
    if gaps.is_empty() {
        return page.line("  no gap in the journal");
    }
    let words = gaps.into_iter().map(|gap| {
        let (count, cause) = (word(gap.get("count")), word(gap.get("cause")));
        let size = gap.get("size").and_then(Value::as_u64);
        let size = size.map(|size| format!(", {size} lost")).unwrap_or_default();
        let last = gap.pointer("/last/to").and_then(Value::as_str);
        let last = last.map(|last| format!(", the last until {}", safe(last))).unwrap_or_default();
        format!("{count} {cause} ({}{size}{last})", time(gap.get("length_ms")))
    });
    page.wrapped("  gaps in the journal: ", &words.collect::<Vec<_>>().join(", "));
}

/// The rules in force, and how much of command lines is stored for them.
fn write_rules(page: &mut Page, status: &Value) {
    let text = |path: &str| word(status.pointer(path));
    if !status.get("rules").is_some_and(Value::is_object) {
        return;
    }
    match status.pointer("/rules/path") {
        Some(Value::String(path)) => {
            page.line(&format!("rules {}", clip(&safe(path), WIDTH - 6)));
            page.line(&format!(
                "  {} rules since {}, cmdline {}",
                text("/rules/rules"),
                text("/rules/since"),
                text("/cmdline")
            ));
            page.line(&format!("  sha256 {}", text("/rules/sha256")));
        }
        _ => page.line(&format!(
            "rules none since {}, cmdline {}",
            text("/rules/since"),
            text("/cmdline")
        )),
    }
    let shadowed = list(status, "/rules/shadowed").into_iter().map(|one| {
        let of = |name: &str| word(one.get(name));
        format!("rule {} (line {}: rule {} takes it all)", of("rule"), of("line"), of("by"))
    });
    let mut shadowed: Vec<String> = shadowed.collect();
    match status.pointer("/rules/shadowed_more").and_then(Value::as_u64) {
        None | Some(0) => {}
        Some(more) => shadowed.push(format!("{more} more")),
    }
    if !shadowed.is_empty() {
        page.wrapped("  NEVER MATCH: ", &shadowed.join(", "));
    }
}

/// How memory is sampled; of a daemon that does not, that.
fn write_memory(page: &mut Page, gpu: &Value) {
    let Some(Value::Object(memory)) = gpu.get("memory") else {
        if gpu.get("memory") == Some(&Value::Null) {
            page.line("  memory held is not sampled: memory_period is off");
        }
        return;
    };
    let of = |name: &str| word(memory.get(name));
    let age = time(memory.get("last_sample_age_ms"));
    page.line(&format!("  memory sampled {age} ago, every {} ms", of("period_ms")));
    let (valid, void) = (of("hours_valid"), of("hours_void"));
    let mut hours = format!("{valid} valid, {void} void");
    if let Some(Value::Object(reasons)) = memory.get("void_reasons") {
        let reasons: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{} {count}", safe(reason))).collect();
        if !reasons.is_empty() {
            hours = format!("{hours} ({})", reasons.join(", "));
        }
    }
    page.wrapped("  hours of memory in the journal: ", &hours);
    for (name, words) in [("hangs_in", "  MEMORY SAMPLING HANGS in "), ("lack", "  NO MEMORY: ")] {
        if let Some(Value::String(why)) = memory.get(name) {
            page.wrapped(words, &safe(why));
        }
    }
}

/// A GPU, and below it who holds it.
fn write_gpu(page: &mut Page, status: &Value, gpu: &Value, shown: &Shown) {
    let of = |name: &str| word(gpu.get(name));
    page.line(&clip(&format!("GPU {} {}", of("index"), of("name")), WIDTH));
    page.line(&clip(&format!("  {}", of("uuid")), WIDTH));
    if gpu.get("accounting_on") == Some(&Value::Bool(false)) {
        page.line("  ACCOUNTING IS OFF: nothing is booked; see `gpu-ledger accounting enable`");
    }
    if gpu.get("released") == Some(&Value::Bool(true)) {
        page.line("  RELEASED: no handle of it is open here");
    }
    if gpu.get("hangs") == Some(&Value::Bool(true)) {
        page.line("  HANGS: a driver call about it has not come back");
    }
    page.line(&format!(
        "  last good read {} ago, room for {} rows before one goes unread",
        time(gpu.get("last_good_read_age_ms")),
        of("eviction_margin_rows")
    ));
    write_memory(page, gpu);
    let here = |one: &&Value| one.get("gpu_uuid") == gpu.get("uuid");
    for open in list(status, "/open").into_iter().filter(here) {
        write_open(page, open, shown);
    }
    for holder in list(status, "/no_driver_row").into_iter().filter(here) {
        page.line(&format!(
            "{} pid {:<8} for {:>10} at least",
            account(shown, "  NO DRIVER ROW ", holder),
            pid(holder),
            time(holder.get("age_ms"))
        ));
        page.line(&format!("      memory {}; on no bill", size(holder.get("memory_bytes"))));
    }
}

fn write_open(page: &mut Page, open: &Value, shown: &Shown) {
    page.line(&format!(
        "{} pid {:<8} so far {:>10}",
        account(shown, "  OPEN          ", open),
        pid(open),
        time(open.get("accrued_ms"))
    ));
    let since = match (open.get("start"), open.get("start_unknown_because")) {
        (Some(Value::String(start)), _) => safe(start),
        (_, why) => format!("unknown: {}", word(why)),
    };
    page.line(&format!("      since {since}"));
    let busy = match (open.get("busy_ms_low"), open.get("busy_ms_high")) {
        (Some(low), Some(high)) if low.is_u64() && high.is_u64() => {
            format!("{} to {}", time(Some(low)), time(Some(high)))
        }
        _ => "unknown".to_owned(),
    };
    page.line(&format!(
        "      memory {} (peak {}), busy {busy}",
        size(open.get("memory_bytes")),
        size(open.get("memory_peak_bytes")),
    ));
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// A text of any length, its words on as many lines as they need.
    fn wrapped(&mut self, begin: &str, text: &str) {
        let mut line = begin.trim_end().to_owned();
        for word in text.split_whitespace() {
            let word = clip(word, WIDTH - 6);
            let longer = format!("{line} {word}");
            if clip(&longer, WIDTH) == longer {
                line = longer;
            } else {
                self.line(&line);
                line = format!("      {word}");
            }
        }
        self.line(&line);
    }
}

fn list<'a>(status: &'a Value, path: &str) -> Vec<&'a Value> {
    status.pointer(path).and_then(Value::as_array).into_iter().flatten().collect()
}

/// A value as one reads it; what is not known says so.
fn word(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => safe(text),
        Some(other) => safe(&other.to_string()),
    }
}

/// Milliseconds, as people read them.
fn time(value: Option<&Value>) -> String {
    match value.and_then(Value::as_u64) {
        Some(ms) => Ms(ms).to_string(),
        None => "unknown".to_owned(),
    }
}

/// Bytes, as people read them.
fn size(value: Option<&Value>) -> String {
    match value.and_then(Value::as_u64) {
        Some(bytes) => Bytes(bytes).to_string(),
        None => "unknown".to_owned(),
    }
}

/// Whose it is, in its column behind `before`, or above it.
fn account(shown: &Shown, before: &str, of: &Value) -> String {
    let (name, named_by) = called(of).unwrap_or(("unknown", None));
    shown.cell(before, &shown.called(name, named_by), NAME_WIDTH)
}

/// Whose it is, and what named that.
fn called(of: &Value) -> Option<(&str, Option<NamedBy>)> {
    let named_by = of.get("named_by").and_then(Value::as_str).and_then(NamedBy::of);
    Some((of.get("account")?.as_str()?, named_by))
}

/// A pid; nothing where it is another user's.
fn pid(of: &Value) -> String {
    of.get("pid").and_then(Value::as_u64).map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

/// A stranger's text, safe to print.
fn safe(text: &str) -> String {
    printable(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn fits(page: &str) {
        for line in page.lines().filter(|line| !line.starts_with("GPU_LEDGER_UNKNOWN ")) {
            assert!(line.width() <= WIDTH, "{} columns: {line}", line.width());
            assert!(!line.chars().any(crate::escape::is_unprintable), "{line:?}");
        }
    }

    fn status(name: &str) -> Value {
        let when = "2026-11-30T07:36:50.339Z";
        json!({
            "host": name, "as_of": when,
            "rules": {
                "path": format!("/etc/{name}"), "sha256": "9".repeat(64), "rules": 20_000, "since": when,
                "shadowed": [{ "rule": 5, "line": 44, "by": 2, "by_line": 12 }], "shadowed_more": 3,
            },
            "cmdline": "redacted",
            "reload_refused": { "at": when, "error": name },
            "daemon": { "pid": 4_194_303, "version": "0.1.0", "ready": true },
            "coverage": {
                "began": when, "until": when, "event_gaps": 12_345, "events_lost": null,
                "device_touch_off_because": name,
                "journal_gaps": [
                    {
                        "cause": "agent-down", "count": 3, "length_ms": 12_345, "size": null,
                        "last": { "from": when, "to": when, "size": null },
                    },
                    {
                        "cause": "rows-possibly-evicted", "count": 1_000_000,
                        "length_ms": 86_400_000, "size": 7, "last": null,
                    },
                ],
            },
            "gpus": [{
                "uuid": "GPU-0", "index": 0, "name": name, "accounting_on": false,
                "last_good_read_age_ms": 86_400_000, "eviction_margin_rows": null,
                "released": true, "hangs": true,
            }],
            "open": [{
                "gpu_uuid": "GPU-0", "pid": 4_194_303, "start": when, "accrued_ms": 3_600_000_000_u64,
                "start_unknown_because": null, "account": name, "memory_bytes": 150_754_820_096_u64,
                "memory_peak_bytes": 1 << 20, "busy_ms_low": 3_599_000_000_u64,
                "busy_ms_high": 3_600_000_000_u64,
            }, {
                "gpu_uuid": "GPU-0", "pid": null, "start": null, "accrued_ms": null,
                "start_unknown_because": "masked-by-dead-row", "account": "other users",
                "memory_bytes": null, "memory_peak_bytes": null, "busy_ms_low": null,
                "busy_ms_high": null,
            }],
            "no_driver_row": [{
                "gpu_uuid": "GPU-0", "pid": 1, "age_ms": 86_399_999, "account": name,
                "memory_bytes": 3_u64 << 30,
            }],
            "notes": [{ "at": when, "note": name }],
            "journal": {
                "state_dir": format!("/{name}"), "settlements": u64::MAX / 1_000_000, "unresolved": 3,
                "head_seq": 12_345_678, "head_hash": "0123456789abcdef0123",
            },
            "checkpoint": {
                "key": "k", "key_id": "3c28751e", "size": 12_345_600, "at": when, "age_ms": 61_000, "uncovered": 78,
                "refused": name, "unknown": null,
                "anchors": {
                    "syslog": { "on": true, "failed": 0, "lack": null },
                    "file": { "on": true, "failed": 3, "lack": name },
                },
            },
            "unknown": [{ "reason": "no-samples", "gpu_uuid": "GPU-0", "call": null, "code": 3 }],
            "health": { "well": false, "reasons": [{ "reason": "no-daemon", "detail": name }] },
        })
    }

    #[test]
    fn a_status_reads_in_hours_and_sizes_with_a_busy_range() {
        let page = status_text(&status("llama-server"));
        for line in [
            "  last good read 24:00:00 ago, room for unknown rows before one goes unread",
            "  OPEN          llama-server               pid 4194303  so far 1000:00:00",
            "      since 2026-11-30T07:36:50.339Z",
            "      memory 140.4 GiB (peak 1 MiB), busy 999:43:20 to 1000:00:00",
            "  OPEN          other users                pid -        so far    unknown",
            "      since unknown: masked-by-dead-row",
            "      memory unknown (peak unknown), busy unknown",
            "  NO DRIVER ROW llama-server               pid 1        for   23:59:59 at least",
            "      memory 3.0 GiB; on no bill",
            "  NOT WELL no-daemon: llama-server",
            "note 2026-11-30T07:36:50.339Z llama-server",
            "  RELOAD REFUSED 2026-11-30T07:36:50.339Z: llama-server",
            "rules /etc/llama-server",
            "  20000 rules since 2026-11-30T07:36:50.339Z, cmdline redacted",
            "  NEVER MATCH: rule 5 (line 44: rule 2 takes it all), 3 more",
            "  12345 gaps in process events since then, unknown events lost",
            "  gaps in the journal: 3 agent-down (12.345 s, the last until",
            "      2026-11-30T07:36:50.339Z), 1000000 rows-possibly-evicted (24:00:00, 7",
            "      lost)",
            "checkpoint of 12345600 entries, signed 0:01:01 ago by key 3c28751e; 78 entries",
            "      since",
            "  NOT SIGNED: llama-server",
            "  outside anchors: system log on, file FAILS (3 so far: llama-server)",
            "GPU_LEDGER_UNKNOWN reason=no-samples gpu=GPU-0 call=- code=3",
        ] {
            assert!(page.lines().any(|found| found == line), "{line:?} is not in\n{page}");
        }
        fits(&page);
    }

    #[test]
    fn without_a_file_of_rules_there_are_none_and_who_may_not_see_why_is_told_so() {
        let mut status = status("x");
        status["rules"]["path"] = Value::Null;
        status["reload_refused"]["error"] = Value::Null;
        let page = status_text(&status);
        assert!(
            page.contains("\nrules none since 2026-11-30T07:36:50.339Z, cmdline redacted\n"),
            "{page}"
        );
        assert!(page.contains("why is told to root and the"), "{page}");
        // Nobody says anything of them where no daemon answers.
        for name in ["rules", "cmdline", "reload_refused"] {
            status[name] = Value::Null;
        }
        let page = status_text(&status);
        assert!(!page.contains("rules") && !page.contains("REFUSED"), "{page}");
    }

    #[test]
    fn containers_and_pods_are_told_apart_by_as_much_of_an_id_as_that_takes() {
        let mut status = status("x");
        let one = |of: &Value, name: String| {
            let mut one = of.clone();
            one["account"] = name.into();
            one
        };
        let docker = |end: &str| format!("docker 3f2a9c0d1e4b{end}{}", "0".repeat(51));
        let pod = |end: u8| format!("pod 0a1b2c3d-1111-2222-3333-44445555000{end}");
        let (open, rowless) = (status["open"][0].clone(), status["no_driver_row"][0].clone());
        let names = [docker("a"), docker("b"), format!("docker {}", "c".repeat(64)), pod(1)];
        status["open"] = names.map(|name| one(&open, name)).to_vec().into();
        status["no_driver_row"] = vec![one(&rowless, pod(2))].into();
        let page = status_text(&status);
        let blank = " ".repeat(16 + NAME_WIDTH);
        for line in [
            "  OPEN          docker 3f2a9c0d1e4ba000    pid 4194303  so far 1000:00:00".to_owned(),
            "  OPEN          docker 3f2a9c0d1e4bb000    pid 4194303  so far 1000:00:00".to_owned(),
            "  OPEN          docker cccccccccccc        pid 4194303  so far 1000:00:00".to_owned(),
            format!("  OPEN          {}\n{blank} pid 4194303  so far 1000:00:00", pod(1)),
            format!("  NO DRIVER ROW {}\n{blank} pid 1        for   23:59:59 at least", pod(2)),
        ] {
            assert!(page.contains(&line), "{line:?} is not in\n{page}");
        }
        fits(&page);
    }

    #[test]
    fn whatever_things_are_called_no_line_is_wider_than_a_terminal() {
        let long =
            "a-word-of-many-letters-without-any-place-where-it-could-be-broken-into-two-lines";
        let names = [
            String::new(),
            "語音合成服務".repeat(30),
            format!(
                "{long}{long} {long} and then \u{1b}[2J\u{202e} {}",
                "some more words ".repeat(20)
            ),
        ];
        for name in names {
            fits(&status_text(&status(&name)));
        }
        fits(&status_text(&Value::Null));
    }
}
