//! What a page says of each host, where the bill is of several.

use std::fmt::{self, Write as _};

use super::{safe, tree_words, write_behind, write_period, write_reading};
use crate::bill::report::{HostLine, Report};
use crate::rendering::clip;
use crate::unit::Ms;

/// The head of the page: the bill, its period, and every host with where its journal ended.
pub(super) fn write_head(page: &mut String, report: &Report, hosts: &[HostLine]) -> fmt::Result {
    writeln!(page, "gpu-ledger bill {}, {} hosts", report.bill_id, hosts.len())?;
    if report.driver.as_deref() == Some("simulated") {
        writeln!(page, "SIMULATED DRIVER: no GPU was used on one host at least")?;
    }
    write_period(page, report)?;
    match &report.period.local_as_of {
        Some(as_of) => writeln!(page, "as of {as_of}, the earliest of the hosts")?,
        None => writeln!(page, "as of unknown: the journal of a host is empty")?,
    }
    write_behind(page, report)?;
    write_reading(page, &report.reading)?;
    writeln!(page, "\nhosts:")?;
    hosts.iter().try_for_each(|host| write_host(page, host))
}

fn write_host(page: &mut String, host: &HostLine) -> fmt::Result {
    let name = host.host.as_deref().unwrap_or("unknown host");
    let driver = match (host.driver.as_deref(), &host.driver_version) {
        (Some("simulated"), _) => "SIMULATED driver".to_owned(),
        (Some(_), Some(version)) => format!("driver {}", clip(&safe(version), 20)),
        (Some(_), None) => "driver version unknown".to_owned(),
        (None, _) => "driver unknown".to_owned(),
    };
    let journal: String = host.journal.chars().take(8).collect();
    writeln!(page, "  {}, {driver}, journal {journal}", clip(&safe(name), 36))?;
    let as_of = host.local_as_of.as_deref().unwrap_or("unknown, the journal is empty");
    match &host.journal_head {
        Some(head) => {
            let hash: String = head.hash.chars().take(16).collect();
            writeln!(page, "    as of {as_of}, {}:{hash}", head.seq)?;
            writeln!(page, "    {}", tree_words(head))?;
        }
        None => writeln!(page, "    as of {as_of}")?,
    }
    let (count, gpus) = (host.settlements_total, host.gpus.len());
    writeln!(page, "    {gpus} GPUs, {count} settlements of {} ms", host.span_ms_total)
}

/// When process events were received on each host.
pub(super) fn write_received(page: &mut String, hosts: &[HostLine]) -> fmt::Result {
    writeln!(page, "process events, for how long of the period they were received:")?;
    for host in hosts {
        let name = host.host.as_deref().unwrap_or("unknown host");
        let words = if host.covered_ms == Ms::ZERO {
            "none were received".to_owned()
        } else {
            host.covered_ms.to_string()
        };
        writeln!(page, "  {}: {words}", clip(&safe(name), 50))?;
    }
    Ok(())
}
