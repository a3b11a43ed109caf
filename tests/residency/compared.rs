//! One batch of two configs, compared within itself.

use crate::recorded::{batches, recorder, residency, text};
use crate::support::Sim;

#[test]
fn the_configs_of_one_batch_are_compared_and_too_few_rounds_are_said_to_be() {
    let sim = Sim::start(&["--gpus", "1"]);
    let job = crate::support::built().program.display().to_string();
    let script = format!(
        "{job} work --gpu 0 --ms 300 --mem-mib $([ $GPU_LEDGER_CONFIG = a ] && echo 2048 || echo 1024)"
    );
    let words = ["--config", "a", "--config", "b", "--rounds", "5", "--", "sh", "-c", &script];
    let output = recorder(&sim, &words).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let batch = batches(&sim).pop().unwrap();
    let batch = batch.to_str().unwrap();
    let compared = residency(&["compare", "--across", "config", batch]);
    let page = text(&compared.stdout);
    assert_eq!(compared.status.code(), Some(3), "{page}{}", text(&compared.stderr));
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("A is config a, B is config b"), "{page}");
    assert!(flat.contains("pairs 5, by context and round, across config"), "{page}");
    assert!(
        flat.contains("memory, peak: too few pairs: 5 that differ, of at least 7 (n 5)"),
        "{page}"
    );
    // `show` takes the two apart.
    let shown = text(&residency(&["show", batch]).stdout);
    assert!(shown.contains("  config a\n") && shown.contains("  config b\n"), "{shown}");
    assert!(shown.contains("    memory, peak (n 5): "), "{shown}");
    for (words, names) in [
        (vec!["compare", batch], "--across config"),
        (vec!["compare", "--across", "context", batch], "it has none"),
        (vec!["compare", "--across", "config", "--of", "a", "--of", "z", batch], "it has a, b"),
        (vec!["compare", "--across", "config", "--of", "a", batch], "--of NAME --of NAME"),
        (vec!["compare", batch, batch], "A and B are one batch"),
    ] {
        let refused = residency(&words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains(names), "{words:?}: {said}");
    }
}
