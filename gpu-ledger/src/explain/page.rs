//! An explanation for people.

use std::fmt::{self, Write as _};

use super::{Explained, Explanation, Nameless, Who};
use crate::unit::Ms;

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
    if explanation.more > 0 {
        writeln!(page, "\n… and {} more; give the id of one", explanation.more)?;
    }
    Ok(())
}

fn line(page: &mut String, word: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(page, "  {word:<14} {value}")
}

fn write_one(page: &mut String, one: &Explained) -> fmt::Result {
    writeln!(page, "settlement {} (entry {}, {})", one.id, one.seq, clip(&one.hash))?;
    let ground = match (one.reason, one.rule) {
        (Some(_), _) => "no identity".to_owned(),
        (None, Some(rule)) => format!("by rule {}", rule.0),
        (None, None) => "no rule: by where it ran, else by its program".to_owned(),
    };
    line(page, "account", format_args!("{} ({ground})", one.account))?;
    let held = Ms(one.held_ms.0);
    let since = one.start.as_deref().unwrap_or("a start that the driver did not give");
    line(page, "held", format_args!("{held} from {since}"))?;
    let gpu = one.driver.as_ref().map_or_else(String::new, |driver| {
        let name = driver.gpu_name.as_deref().unwrap_or("name unknown");
        format!(" (GPU {} {name})", driver.gpu_index)
    });
    line(page, "gpu", format_args!("{}{gpu}", one.gpu_uuid))?;
    if let Some(driver) = &one.driver {
        let version = driver.version.as_deref().unwrap_or("of unknown version");
        line(page, "driver", format_args!("{version}, {}", driver.kind))?;
        line(page, "read final", format_args!("{} to {}", driver.read_began, driver.read_ended))?;
    }
    line(page, "pid", one.pid)?;
    if let Some(who) = &one.who {
        write_who(page, one, who)?;
    }
    if let Some(nameless) = &one.nameless {
        write_nameless(page, nameless)?;
    }
    for (dimension, value) in &one.labels {
        line(page, dimension, value)?;
    }
    if !one.flags.is_empty() {
        let flags: Vec<&str> = one.flags.iter().map(|flag| flag.as_str()).collect();
        line(page, "flags", flags.join(", "))?;
    }
    if let Some(dispute) = one.dispute {
        line(page, "disputed", format_args!("{dispute}: its milliseconds are not priced"))?;
    }
    Ok(())
}

fn write_who(page: &mut String, one: &Explained, who: &Who) -> fmt::Result {
    let basis = one.basis.map_or("unknown", crate::identity::Basis::as_str);
    line(page, "named by", format_args!("{basis}; the row's start and its life: {}", who.fit))?;
    let born = who.born.as_deref().unwrap_or("unknown");
    let exact = if who.born_is_exact { "" } else { ", to the clock's tick" };
    line(page, "born", format_args!("{born}{exact}"))?;
    line(page, "program", one.program.as_deref().unwrap_or("unknown"))?;
    line(page, "executable", who.exe.as_deref().unwrap_or("not captured"))?;
    match (&who.argv, &who.argv_commitment) {
        (Some(words), _) => line(page, "arguments", words.join(" "))?,
        (None, Some(_)) => line(
            page,
            "arguments",
            "committed to, and not stored (`cmdline` in the configuration)",
        )?,
        (None, None) => line(page, "arguments", "not captured")?,
    }
    let id = |uid: Option<u32>| uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
    line(page, "uid", format_args!("{}, effective {}", id(one.uid), id(who.euid)))?;
    if !who.ancestors.is_empty() {
        let known = who.ancestors.iter().map(|one| one.as_deref().unwrap_or("unknown"));
        line(page, "born under", known.collect::<Vec<_>>().join(" < "))?;
    }
    for path in &who.cgroups {
        line(page, "control group", path.as_deref().unwrap_or("path unknown"))?;
    }
    Ok(())
}

fn write_nameless(page: &mut String, nameless: &Nameless) -> fmt::Result {
    line(page, "to have a name", nameless.remedy)?;
    if let (Some(cause), Some(from), Some(to)) =
        (nameless.gap_cause, &nameless.gap_from, &nameless.gap_to)
    {
        let size =
            nameless.gap_size.map_or("size unknown".to_owned(), |size| format!("size {size}"));
        line(page, "not seen", format_args!("{cause}, {from} to {to}, {size}"))?;
    }
    for one in &nameless.weighed {
        let born = one.born.as_deref().unwrap_or("unknown");
        let ended = one.ended.as_deref().unwrap_or("not known to have");
        line(page, "weighed", format_args!("born {born}, ended {ended}: {}", one.fit))?;
    }
    Ok(())
}

fn clip(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}
