//! What may not be used is never drawn as if it could.

use clap::ValueEnum as _;

use super::made::{Made, busy, busy_processes};
use crate::residency::plot::{
    Curve, Facts, Format, Iteration, Picture, PlotError, ShowVoid, Theme, file_name, page, render,
    write,
};
use crate::residency::verdict::{Backend, Verdict};

fn made(latency_ms: &dyn Fn(u64) -> u64, backend: Backend) -> (Curve, Iteration, Facts) {
    let made = Made {
        read: &busy,
        latency_ms,
        processes: busy_processes(),
        duration_ms: 20_000,
        ..Made::default()
    };
    let (curve, iteration) = made.curve();
    let facts = made.facts(&iteration, backend);
    (curve, iteration, facts)
}

fn stalled(ms: u64) -> u64 {
    if ms == 10_000 { 900 } else { 4 }
}

fn svg(curve: &Curve, iteration: &Iteration, facts: &Facts) -> Result<String, PlotError> {
    let picture = Picture { facts, iteration, curve: Some(curve), theme: Theme::Light };
    render(&picture, ShowVoid::Yes)
}

#[test]
fn void_data_are_drawn_only_where_that_is_asked_for() {
    let (curve, iteration, facts) = made(&stalled, Backend::DirectNvml);
    let picture =
        Picture { facts: &facts, iteration: &iteration, curve: Some(&curve), theme: Theme::Light };
    assert!(matches!(render(&picture, ShowVoid::No), Err(PlotError::Void)));
    assert!(matches!(page::render(&[picture], ShowVoid::No), Err(PlotError::Void)));
    for format in Format::value_variants() {
        let written =
            write::<PlotError>(&[picture], *format, 400, ShowVoid::No, |_, _| panic!("drawn"));
        assert!(matches!(written, Err(PlotError::Void)), "{format:?}");
    }
    assert!(PlotError::Void.to_string().contains("--show-void"));
    assert_eq!(file_name("0001", "svg", &facts.verdict), "0001.void.svg");
    let valid = Verdict { backend: Vec::new(), data: Vec::new() };
    assert_eq!(file_name("0001", "svg", &valid), "0001.svg");
}

#[test]
fn every_file_of_a_void_batch_is_called_so() {
    let (curve, iteration, facts) = made(&stalled, Backend::DirectNvml);
    let second = Iteration { number: 2, ..iteration.clone() };
    let pictures = [&iteration, &second].map(|iteration| Picture {
        facts: &facts,
        iteration,
        curve: Some(&curve),
        theme: Theme::Light,
    });
    for format in Format::value_variants() {
        let mut names = Vec::new();
        let put = |name: &str, bytes: &[u8]| {
            names.push((name.to_owned(), bytes.first().copied()));
            Ok::<(), PlotError>(())
        };
        write(&pictures, *format, 400, ShowVoid::Yes, put).unwrap();
        let (extension, first) = match format.extension() {
            "svg" => ("svg", b'<'),
            "html" => ("html", b'<'),
            "png" => ("png", b'\x89'),
            other => (other, b'%'),
        };
        let expected = if extension == "html" { vec!["batch"] } else { vec!["0001", "0002"] };
        let expected: Vec<_> =
            expected.iter().map(|name| (format!("{name}.void.{extension}"), Some(first))).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_void_picture_is_unmistakable() {
    let (curve, iteration, facts) = made(&stalled, Backend::DirectNvml);
    let svg = svg(&curve, &iteration, &facts).unwrap();
    let (_, title) = svg.split_once("<title id=\"title\">").unwrap();
    assert!(title.starts_with("VOID: age_over_cap "), "{title:.80}");
    let (_, shown) = svg.split_once("class=\"h loud\"").unwrap();
    assert!(shown.split_once('>').unwrap().1.starts_with("VOID: age_over_cap"), "{shown:.80}");
    for wanted in [
        "data_verdict=\"void\" backend_verdict=\"pass\"",
        "<rect fill=\"url(#hatch)\" width=\"1000\"",
        "class=\"stale\"",
        ">VOID</text>",
    ] {
        assert!(svg.contains(wanted), "{wanted}");
    }
    for unwanted in ["mean ", "peak ", "BACKEND FAIL", "#56b4e9", "#0072b2", "better"] {
        assert!(!svg.contains(unwanted), "{unwanted}");
    }
}

#[test]
fn no_crop_that_shows_a_panel_is_without_a_mark() {
    let (curve, iteration, facts) = made(&stalled, Backend::Simulated);
    let svg = svg(&curve, &iteration, &facts).unwrap();
    let number = |text: &str, name: &str| -> i32 {
        let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
        rest.split(['"', '.']).next().unwrap().parse().unwrap()
    };
    let height = number(&svg, "height");
    let marks: Vec<(i32, i32)> = svg
        .split("<use ")
        .skip(1)
        .map(|mark| (number(mark, " x").max(0), number(mark, " y")))
        .collect();
    // A panel is 84 units high and more: in any strip so high, over either half, a mark begins or ends.
    for top in (0..height - 90).step_by(10) {
        let inside = |(_, y): &&(i32, i32)| (top..top + 90).contains(y);
        let xs: Vec<i32> = marks.iter().filter(inside).map(|(x, _)| *x).collect();
        assert!(xs.iter().any(|x| *x < 500) && xs.iter().any(|x| *x >= 300), "{top}: {xs:?}");
    }
}

#[test]
fn a_failed_backend_is_printed_and_both_print_both() {
    let (curve, iteration, facts) = made(&|_| 4, Backend::Simulated);
    let fail = svg(&curve, &iteration, &facts).unwrap();
    assert!(fail.contains(">BACKEND FAIL: simulated UNVERIFIED HARNESS</title>"));
    assert!(fail.contains(">BACKEND FAIL</text>") && !fail.contains("VOID"));
    assert!(fail.contains("data_verdict=\"valid\" backend_verdict=\"fail\""));
    let (curve, iteration, facts) = made(&stalled, Backend::Simulated);
    let both = svg(&curve, &iteration, &facts).unwrap();
    assert!(both.contains(">VOID · BACKEND FAIL</text>"));
    assert!(both.contains("BACKEND FAIL: simulated UNVERIFIED HARNESS</title>"));
    let (curve, iteration, facts) = made(&|_| 4, Backend::DirectNvml);
    let valid = svg(&curve, &iteration, &facts).unwrap();
    for unwanted in ["VOID", "FAIL", "UNVERIFIED", "<use ", "proves nothing"] {
        assert!(!valid.contains(unwanted), "{unwanted}");
    }
    for wanted in [
        "read within 200.000 ms of the instant it is drawn at",
        "probing 2.0000 % of the time",
        "recorder CPU UNKNOWN of a core",
        "ms p50 / p99: pass 4.000 / 4.000",
        "memory 0.000 / 0.000",
    ] {
        assert!(valid.contains(wanted), "{wanted}: {valid}");
    }
    assert!(!valid.contains("better"));
}

#[test]
fn an_iteration_that_would_pass_alone_is_marked_with_its_batch() {
    let (curve, iteration, mut facts) = made(&|_| 4, Backend::DirectNvml);
    facts.verdict.data = made(&stalled, Backend::DirectNvml).1.voids;
    assert_eq!(iteration.voids, []);
    let svg = svg(&curve, &iteration, &facts).unwrap();
    assert!(svg.contains("<title id=\"title\">VOID: ") && svg.contains("<use "));
    assert!(svg.contains("one void iteration voids the whole batch"));
    assert!(!svg.contains("mean "));
}

#[test]
fn a_window_that_never_began_is_said_and_not_drawn() {
    let (_, iteration, mut facts) = made(&|_| 4, Backend::DirectNvml);
    facts.verdict.data = made(&stalled, Backend::DirectNvml).1.voids;
    let picture =
        Picture { facts: &facts, iteration: &iteration, curve: None, theme: Theme::Light };
    let svg = render(&picture, ShowVoid::Yes).unwrap();
    assert!(svg.contains("No sample landed: there is no curve.") && svg.contains("VOID: "));
}
