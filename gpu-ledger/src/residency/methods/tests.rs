//! The paragraph of a made batch.

use super::{Methods, Window};
use crate::residency::facts::BatchFacts;
use crate::residency::settings::AgeGate;
use crate::residency::statistics::tests::made::{MIB, Made, facts, labels, valid, void};
use crate::residency::verdict::{Backend, BackendReason, Verdict};

struct Told {
    text: String,
    paragraph: String,
    latex: String,
}

fn told(facts: &BatchFacts, verdict: &Verdict) -> Told {
    let figures = Made::of(400, &[(0, MIB), (200, MIB), (400, MIB)]).figures();
    let labels = [labels("fp8", 1), labels("bf16\n", 1)];
    let windows = labels.each_ref().map(|labels| Window { labels, figures: &figures, notes: &[] });
    let phases = ["load".to_owned(), "serve_%".to_owned()];
    let methods = Methods::new(facts, verdict, &windows, &phases, 1).unwrap();
    Told { text: methods.text(), paragraph: methods.paragraph(), latex: methods.latex() }
}

#[test]
fn it_is_filled_with_the_figures_of_the_batch() {
    let text = told(&facts("batch-1"), &valid()).text;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "The state of one GPU (NVIDIA H200, GPU-11111111-2222-3333-4444-555555555555) was recorded with",
        "(backend direct_nvml, driver 595.45.04, Linux 6.18.5; no program was run to ask the driver)",
        "Every 200.000 ms it read utilization, power, memory, one after another",
        "was at most 151.000 ms at a point and 201.000 ms between points; the cap was 750.000 ms, held \
         against the age at the points and between them",
        "n = 2 iterations of together 800.000 ms; 18 of 18 points were available. 0 of 6 passes",
        "(bootstrap, BCa, 10000 draws, seed 1)",
        "This proves: each value of device memory was read within 201.000 ms of the instant it is drawn at, and",
        "It was recorded while this command ran, once in each iteration: python3 serve.py.",
        "Iterations were labelled by config fp8 (n 1), bf16\\x0a (n 1); context 4096 (n 2); round 01 (n 2).",
        "Phases were marked by the user: load, serve_%.",
        "750.000 ms is a trade-off, not its behaviour;",
        "age sup 201.000 ms",
        "clock CLOCK_BOOTTIME",
        "n 2",
    ] {
        assert!(flat.contains(said), "{said:?} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.to_lowercase().contains("better"));
}

#[test]
fn it_cannot_be_had_of_a_void_batch() {
    let figures = Made::of(400, &[(0, MIB)]).figures();
    let facts = facts("batch-1");
    let labels = labels("x", 1);
    let window = Window { labels: &labels, figures: &figures, notes: &[] };
    let refused = Methods::new(&facts, &void(), &[window], &[], 1).map(|_| ()).unwrap_err();
    assert_eq!(refused.0, void().data);
}

#[test]
fn what_forbids_to_cite_it_comes_first() {
    let mut facts = facts("batch-1");
    facts.backend = Backend::Simulated;
    facts.harness_verified = false;
    facts.settings.age_gate = AgeGate::Points;
    (facts.driver, facts.gpu_name) = (None, None);
    let verdict = Verdict { backend: vec![BackendReason::Simulated], data: vec![] };
    let text = told(&facts, &verdict).paragraph;
    assert!(
        text.starts_with("NOT TO BE CITED: the backend verdict of this batch is fail (simulated).")
    );
    assert!(text.contains("UNVERIFIED HARNESS"), "{text}");
    assert!(text.contains("driver UNKNOWN") && text.contains("at the points alone"), "{text}");
    assert!(!text.contains('\n'));
}

#[test]
fn text_and_latex_say_the_same_facts() {
    let made = facts("batch-1");
    let Told { text, latex, .. } = told(&made, &valid());
    let figures = Made::of(400, &[(0, MIB)]).figures();
    let labels = labels("x", 1);
    let window = [Window { labels: &labels, figures: &figures, notes: &[] }];
    let verdict = valid();
    let methods = Methods::new(&made, &verdict, &window, &[], 1).unwrap();
    let names: Vec<&str> = methods.facts().iter().map(|(name, _)| *name).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("\n  {name}")), "{name}: {text}");
        assert!(latex.contains(&format!("\n  {name} & ")), "{name}: {latex}");
    }
}

#[test]
fn latex_says_the_same_and_runs_nothing_of_a_stranger() {
    let mut facts = facts("batch_1");
    facts.gpu_name = Some("50% \\input{x} & $y$\n".to_owned());
    let latex = told(&facts, &valid()).latex;
    assert!(
        latex.contains("50\\% \\textbackslash{}\\textbackslash{}input\\{x\\} \\& \\$y\\$"),
        "{latex}"
    );
    assert!(latex.contains("  batch & batch\\_1 \\\\\n"), "{latex}");
    assert!(latex.contains("  cap & 750.000 ms \\\\\n"), "{latex}");
    assert!(latex.contains("\\begin{tabular}{ll}\n") && latex.ends_with("\\end{tabular}\n"));
    assert!(!latex.to_lowercase().contains("better"));
    // Braces close, but for those that are spelled out.
    let bare = latex.replace("\\{", "").replace("\\}", "");
    assert_eq!(bare.matches('{').count(), bare.matches('}').count());
}
