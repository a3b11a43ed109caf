//! An explanation for people: at most 80 columns, but for words that are longer.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthStr as _;

use super::evidence::BorneBy;
use super::{Explained, Explanation, Group, Nameless, Near, RulesLack, Ruling, Who};
use crate::argv::StoredText;
use crate::attribution::{Grounded, Label};
use crate::escape::{escape, printable};
use crate::identity::Basis;
use crate::settlement::RuleId;
use crate::unit::Ms;

/// Columns of a page.
const PAGE_WIDTH: usize = 80;
/// Columns of the word before a value: what is left holds 64 digits.
const WORD_WIDTH: usize = 13;
/// Columns before a value.
const INDENT: usize = 16;

/// Renders it.
#[must_use]
pub fn render(explanation: &Explanation) -> String {
    let mut page = String::new();
    // Writing to a `String` cannot fail.
    let _ = write(&mut page, explanation);
    page
}

fn write(page: &mut String, explanation: &Explanation) -> fmt::Result {
    for (place, one) in explanation.settlements.iter().enumerate() {
        if place > 0 {
            writeln!(page)?;
        }
        write_one(page, one)?;
    }
    if let Some(uid) = explanation.only_uid {
        let words = "read through the daemon: its word, and of the settlements of user";
        writeln!(page, "\n{words} {uid} alone")?;
    }
    if explanation.more > 0 {
        writeln!(page, "\n… and {} more; give the id of one", explanation.more)?;
    }
    Ok(())
}

/// A word and its value, which goes on below itself where it is too long.
fn line(page: &mut String, word: &str, value: impl fmt::Display) -> fmt::Result {
    let value = value.to_string();
    write!(page, "  {word:<WORD_WIDTH$}")?;
    let mut column = INDENT.max(word.width().saturating_add(3)).saturating_sub(1);
    for (place, part) in value.split(' ').enumerate() {
        let width = part.width();
        if place > 0 && column.saturating_add(width) >= PAGE_WIDTH {
            write!(page, "\n{:INDENT$}{part}", "")?;
            column = INDENT.saturating_add(width);
        } else {
            write!(page, " {part}")?;
            column = column.saturating_add(width).saturating_add(1);
        }
    }
    writeln!(page)
}

fn write_one(page: &mut String, one: &Explained) -> fmt::Result {
    let hash = one.hash.as_deref().map_or_else(String::new, |hash| format!(", {}", clip(hash)));
    writeln!(page, "settlement {} (entry {}{hash})", one.id, one.seq)?;
    line(page, "account", &one.account)?;
    write_ground(page, one)?;
    let since = one.start.as_deref().unwrap_or("a start that the driver did not give");
    line(page, "held", format_args!("{} from {since}", one.held_ms))?;
    if let Some(memory) = &one.memory {
        line(page, "memory held", memory)?;
    }
    let gpu = one.driver.as_ref().map_or_else(String::new, |driver| {
        let name = driver.gpu_name.as_deref().unwrap_or("of unknown name");
        format!("GPU {} {name}, ", driver.gpu_index)
    });
    line(page, "gpu", format_args!("{gpu}{}", one.gpu_uuid))?;
    match &one.driver {
        Some(driver) => {
            let version = driver.version.as_deref().unwrap_or("of unknown version");
            line(page, "driver", format_args!("{version}, {}", driver.kind))?;
            line(
                page,
                "read final",
                format_args!("{} to {}", driver.read_began, driver.read_ended),
            )?;
        }
        None => line(page, "evidence", "not here: it was archived, or is not this user's to see")?,
    }
    line(page, "pid", one.pid)?;
    if let Some(who) = &one.who {
        write_who(page, one, who)?;
    }
    write_labels(page, one)?;
    if !one.flags.is_empty() {
        let flags: Vec<&str> = one.flags.iter().map(|flag| flag.as_str()).collect();
        line(page, "flags", flags.join(", "))?;
    }
    if let Some(dispute) = one.dispute {
        line(page, "disputed", format_args!("{dispute}: its milliseconds are not priced"))?;
    }
    Ok(())
}

/// What decided on the account, and what would have without it.
fn write_ground(page: &mut String, one: &Explained) -> fmt::Result {
    if let Some(nameless) = &one.nameless {
        return write_nameless(page, nameless);
    }
    let mut grounds = one.grounds.iter();
    match one.rule {
        Some(rule) => write_rule(page, one, rule)?,
        None => match grounds.next() {
            Some(ground) => {
                line(page, "because", format_args!("{} {}", ground.ground, ground.value))?;
            }
            None => line(
                page,
                "because",
                "no rule took it; what else decided cannot be told from what is stored",
            )?,
        },
    }
    for ground in grounds {
        let Grounded { ground, value, account } = ground;
        let account = printable(account.as_bytes());
        let as_account =
            if *value == account.to_string() { String::new() } else { format!(", as {account}") };
        line(page, "else", format_args!("{ground} {value}{as_account}"))?;
    }
    if let Some(ruling) = &one.rules {
        write_near(page, one, ruling)?;
    }
    Ok(())
}

fn write_rule(page: &mut String, one: &Explained, rule: RuleId) -> fmt::Result {
    let Some(ruling) = &one.rules else {
        return line(page, "because", format_args!("rule {}", rule.0));
    };
    match (&ruling.file, ruling.line) {
        (Some(file), Some(at)) => {
            let file = escape(file.as_os_str().as_encoded_bytes()).to_string();
            line(page, "because", format_args!("rule {} at line {at} of {file}", rule.0))?;
        }
        _ => line(page, "because", format_args!("rule {}", rule.0))?,
    }
    for held in &ruling.held {
        line(page, "", format_args!("{} {} is {}", held.key, held.value, held.pattern))?;
    }
    Ok(())
}

/// Rules that did not decide.
fn write_near(page: &mut String, one: &Explained, ruling: &Ruling) -> fmt::Result {
    if let Some(lack) = ruling.unknown_because {
        if lack == RulesLack::NoneInForce {
            let what = "none were in force then: the file at hand is another, and says nothing of it (rules replay \
                        says what it would have done)";
            return line(page, "rules", what);
        }
        let named = "--rules FILE names it, and says what held and what nearly did";
        let why = match lack {
            RulesLack::Unread => format!("the one at hand cannot be read: {named}"),
            RulesLack::NoFile => format!("there is none here: {named}"),
            RulesLack::OtherFile => format!("the one at hand is another: {named}"),
            RulesLack::NoEvidence | RulesLack::NoneInForce => {
                "so has the one at hand, but what it would be asked about is not here".to_owned()
            }
        };
        let sha256 = clip(&ruling.sha256);
        let rules = format_args!("the file in force then has SHA-256 {sha256}…; {why}");
        return line(page, "rules", rules);
    }
    if one.rule.is_some() && ruling.line.is_none() {
        let what = "by what is stored now that rule holds no more (not all arguments are stored)";
        line(page, "rules", what)?;
    }
    for near in &ruling.near {
        write_nearly(page, near)?;
    }
    match ruling.near_more {
        0 => Ok(()),
        more if ruling.near.is_empty() => {
            line(page, "nearly", format_args!("none of the rules before it ({more})"))
        }
        more => line(page, "", format_args!("and none of the others before it ({more})")),
    }
}

fn write_nearly(page: &mut String, near: &Near) -> fmt::Result {
    let Near { rule, line: at, holds, conditions, key, wants, .. } = near;
    let is = match near.seen.as_slice() {
        [] => "not known".to_owned(),
        _ if near.capture_is_empty => "that, but a capture takes nothing".to_owned(),
        seen => seen.join(", "),
    };
    let account = printable(near.account.as_bytes());
    line(
        page,
        "nearly",
        format_args!(
            "rule {} at line {at} ({account}), {holds} of {conditions} hold: {key} wants {wants}; it is {is}",
            rule.0
        ),
    )
}

/// What it was before and after: of a process that was one thing all its life nothing more is to be said.
fn write_images(page: &mut String, who: &Who) -> fmt::Result {
    let Some(images) = who.images.as_ref().filter(|images| images.len() > 1) else { return Ok(()) };
    for (place, image) in images.iter().enumerate() {
        let BorneBy { since, basis, program, is_billed, .. } = image;
        let (program, since) = (
            program.as_deref().unwrap_or("unknown"),
            since.as_deref().unwrap_or("a moment that is not known"),
        );
        let billed = if *is_billed { ": in force when the row began, and billed" } else { "" };
        let name = if place == 0 { "images" } else { "" };
        line(page, name, format_args!("{program} since {since} ({basis}){billed}"))?;
    }
    match who.images_forgotten {
        None | Some(0) => Ok(()),
        Some(more) => line(page, "", format_args!("and {more} between them, which were forgotten")),
    }
}

fn write_who(page: &mut String, one: &Explained, who: &Who) -> fmt::Result {
    line(page, "known by", format_args!("{}; {}", basis(one.basis), fit(who.fit)))?;
    let born = who.born.as_deref().unwrap_or("unknown");
    let exact = if who.born_is_exact { "" } else { ", to the clock's tick" };
    line(page, "born", format_args!("{born}{exact}"))?;
    line(page, "program", one.program.as_deref().unwrap_or("unknown"))?;
    line(page, "executable", who.exe.as_deref().unwrap_or("not captured"))?;
    match (&who.argv, &who.argv_commitment) {
        // Of them the file alone is stored, which stands above.
        (Some(_), _) if who.argv_text == Some(StoredText::Exe.as_str()) => {
            line(page, "arguments", "committed to, and not stored (`cmdline = \"exe\"` then)")?;
        }
        (Some(words), _) => {
            line(page, "arguments", words.join(" "))?;
            if who.argv_mode.is_none() {
                let what = "(how much of them was to be kept is not in this entry: they may be another's of the same \
                            arguments, and are without secrets)";
                line(page, "", what)?;
            }
        }
        (None, Some(_)) => {
            let what = match who.argv_mode {
                None => "committed to, and not stored, or not any more",
                Some("none") => "committed to, and not stored (`cmdline = \"none\"` then)",
                Some(_) => "committed to, stored then, and not any more",
            };
            line(page, "arguments", what)?;
        }
        (None, None) => line(page, "arguments", "not captured")?,
    }
    let id = |uid: Option<u32>| uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
    let login = who.login_uid.map_or_else(String::new, |uid| format!(", of the login {uid}"));
    line(page, "uid", format_args!("{}, effective {}{login}", id(one.uid), id(who.euid)))?;
    write_images(page, who)?;
    if !who.ancestors.is_empty() {
        let known = who.ancestors.iter().map(|one| one.as_deref().unwrap_or("unknown"));
        line(page, "born under", known.collect::<Vec<_>>().join(" < "))?;
    }
    let (roots, others): (Vec<_>, Vec<_>) =
        who.cgroups.iter().partition(|group| group.path.as_deref() == Some("/"));
    for group in others {
        write_group(page, group)?;
    }
    match roots.len() {
        0 => Ok(()),
        1 => line(page, "control group", "/, the root of one hierarchy"),
        count => line(page, "control group", format_args!("/, the root of {count} hierarchies")),
    }
}

fn write_group(page: &mut String, group: &Group) -> fmt::Result {
    let path = group.path.as_deref().unwrap_or("path unknown");
    match group.hierarchy {
        0 => line(page, "control group", format_args!("{path} (v2)")),
        number => line(page, "control group", format_args!("{path} (v1, hierarchy {number})")),
    }
}

fn basis(basis: Option<Basis>) -> &'static str {
    match basis {
        Some(Basis::Exec) => "exec, as it happened",
        Some(Basis::Fork) => "fork, as it happened: it runs what its parent ran",
        Some(Basis::Procfs) => "procfs, where it was found running",
        Some(Basis::Journal) => "journal, which has it from when it ran",
        None => "unknown",
    }
}

fn fit(word: &str) -> &'static str {
    match word {
        "contains" => "its life contains the row's start",
        "may-contain" => "its life may contain the row's start, as far as its ends are known",
        "within-tolerance" => "its life is as near to the row's start as the clocks are exact",
        _ => "its life is not about the row's start",
    }
}

fn write_nameless(page: &mut String, nameless: &Nameless) -> fmt::Result {
    line(page, "because", nameless.cause)?;
    line(page, "remedy", nameless.remedy)?;
    let unseen = &nameless.not_seen;
    let gap = unseen.gap.map_or_else(String::new, |cause| format!("{cause}, "));
    let unknown = "a moment that is not known";
    let from = unseen.from.as_deref().unwrap_or(unknown);
    let to = unseen.to.as_deref().unwrap_or(unknown);
    let length = unseen.length_ms.map_or("of unknown length".to_owned(), |ms| Ms(ms.0).to_string());
    let size = match unseen.size {
        Some(1) => {
            let of = unseen.of;
            let one = of.strip_suffix("es").or_else(|| of.strip_suffix('s')).unwrap_or(of);
            format!("1 {one}")
        }
        Some(size) => format!("{size} {}", unseen.of),
        None => format!("how many {} is not known", unseen.of),
    };
    line(page, "not seen", format_args!("{gap}from {from} to {to}: {length}, {size}"))?;
    for one in &nameless.weighed {
        let born = one.born.as_deref().unwrap_or("unknown");
        let ended = one.ended.as_deref().unwrap_or("not known to have");
        line(page, "weighed", format_args!("born {born}, ended {ended}: {}", fit(one.fit)))?;
    }
    Ok(())
}

/// By what else it can be billed; the rules' digest is said with the rules.
fn write_labels(page: &mut String, one: &Explained) -> fmt::Result {
    let labels = one.labels.iter().filter(|(word, _)| ***word != *Label::Rules.as_str());
    for (word, value) in labels {
        if word.width() > WORD_WIDTH {
            line(page, "label", format_args!("{word} {value}"))?;
        } else {
            line(page, word, value)?;
        }
    }
    Ok(())
}

fn clip(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}
