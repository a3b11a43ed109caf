//! Every kind of picture, for people to look at, with what a million points cost:
//! `PLOT_GALLERY=DIR cargo test --release -p gpu-ledger --lib plot::tests::gallery -- --ignored --nocapture`.

use super::made::{Made, Read, busy, busy_processes, process};
use crate::residency::moment::Length;
use crate::residency::plot::{Picture, ShowVoid, Theme, file_name, page, render};
use crate::residency::settings::Settings;
use crate::residency::verdict::Backend;

#[test]
#[ignore = "draws into the folder PLOT_GALLERY, for people to look at"]
#[expect(clippy::too_many_lines, reason = "a list")]
fn gallery() {
    let folder = std::env::var_os("PLOT_GALLERY").expect("PLOT_GALLERY=DIR");
    let folder = std::path::PathBuf::from(folder);
    let clock = crate::clock::Clock::system();
    let mut from = clock.now();
    let mut lap = |name: &str, what: &str| {
        let now = clock.now();
        println!("{name:12} {what:6} {:6} ms", (now.mono_ns - from.mono_ns) / 1_000_000);
        from = clock.now();
    };
    let phases =
        |list: &[(u64, &str)]| list.iter().map(|(ms, name)| (*ms, (*name).to_owned())).collect();
    let base = || Made {
        read: &busy,
        processes: busy_processes(),
        duration_ms: 120_000,
        ..Made::default()
    };
    let stalls = |ms: u64| match ms {
        30_000..30_200 | 60_000..60_200 => 512,
        90_000..90_200 => 2_600,
        _ => 9 + ms / 200 % 5,
    };
    let mild = |ms: u64| match ms {
        30_000..30_200 | 60_000..60_400 => 512,
        _ => 9 + ms / 200 % 5,
    };
    let many = |ms: u64| {
        let list: Vec<_> = (0..24_u32)
            .map(|pid| (100 + pid, Some(200 + u64::from(pid * pid) * 9 + ms / 4_000 % 4 * 50)))
            .collect();
        let sum: u64 = list.iter().filter_map(|one| one.1).sum();
        let processes = (!(40_000..=46_000).contains(&ms)).then_some(list);
        Read {
            used_mib: if ms > 80_000 && ms < 84_000 { sum - 900 } else { sum + 400 },
            utilization: Some(40),
            power_mw: (ms % 9_000 > 600).then_some(250_000),
            celsius: 50,
            processes,
        }
    };
    let long = |ms: u64| {
        let mut read = busy(ms % 120_000 / 3);
        read.used_mib += ms / 200 * 7_919 % 331;
        if ms / 200 == 125_000 {
            read.utilization = Some(100);
            read.used_mib = 79_000;
        }
        read
    };
    let names: Vec<_> = (0..24_u32)
        .map(|pid| {
            process(100 + pid, 1_000, Some(&"w".repeat(usize::try_from(pid).unwrap() * 5 + 1)))
        })
        .collect();
    let list = [
        (
            "valid",
            Backend::DirectNvml,
            Made {
                latency_ms: &mild,
                phases: phases(&[
                    (0, "warm-up"),
                    (12_000, "image burst"),
                    (50_000, "mixed"),
                    (50_600, "x"),
                    (110_000, "cool-down of everything & more"),
                ]),
                ..base()
            },
        ),
        ("fail", Backend::Simulated, Made { latency_ms: &mild, ..base() }),
        (
            "void",
            Backend::DirectNvml,
            Made { latency_ms: &stalls, phases: phases(&[(0, "load"), (60_000, "run")]), ..base() },
        ),
        ("both", Backend::Simulated, Made { latency_ms: &stalls, ..base() }),
        ("many", Backend::DirectNvml, Made { read: &many, processes: names, ..base() }),
        ("short", Backend::DirectNvml, Made { duration_ms: 2_000, ..base() }),
        ("million", Backend::DirectNvml, Made { read: &long, duration_ms: 50_000_000, ..base() }),
        (
            "millionvoid",
            Backend::DirectNvml,
            Made {
                read: &long,
                latency_ms: &|ms| if ms / 200 == 100_000 { 800 } else { 7 },
                duration_ms: 50_000_000,
                settings: Settings { cap: Length::of_ms(700), ..Settings::default() },
                ..base()
            },
        ),
    ];
    for (name, backend, made) in list {
        let (curve, iteration) = made.curve();
        lap(name, "fold");
        let facts = made.facts(&iteration, backend);
        for theme in [Theme::Light, Theme::Dark, Theme::Auto] {
            let picture =
                Picture { facts: &facts, iteration: &iteration, curve: Some(&curve), theme };
            let suffix = format!("{name}-{theme:?}").to_lowercase();
            let put = |extension: &str, bytes: Vec<u8>| {
                let file = file_name(&suffix, extension, &facts.verdict);
                std::fs::write(folder.join(file), bytes).unwrap();
            };
            put("svg", render(&picture, ShowVoid::Yes).unwrap().into());
            lap(name, "svg");
            put("html", page::render(&[picture], ShowVoid::Yes).unwrap().into());
            lap(name, "html");
            #[cfg(feature = "pictures")]
            if theme != Theme::Auto {
                use crate::residency::plot::{print, render_for_print};
                let svg = render_for_print(&picture, ShowVoid::Yes).unwrap();
                for width_px in [800, 2_000] {
                    put(&format!("{width_px}.png"), print::png(&svg, width_px).unwrap());
                    lap(name, "png");
                }
                put("pdf", print::pdf(&svg).unwrap());
                lap(name, "pdf");
            }
        }
    }
}
