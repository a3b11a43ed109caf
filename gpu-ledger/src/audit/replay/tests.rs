//! Bundles whose bill is the same again, those whose is not, and what cannot be told.
#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use std::path::PathBuf;

use super::*;
use crate::audit::made::MadeBundle;
use crate::journal::chain::{Recovered, Sealed, sha256};
use crate::journal::commitment::CommitmentKey;
use crate::journal::entry::{CoverageEdge, Draft, Epoch, EpochEdge, KeptArgv};
use crate::rendering::json;
use crate::settlement::RuleId;
use crate::unit::{Bytes, Ms, Pid};

use crate::journal::store::tests::made;

use made::{DAY_MS, EPOCH_MS, Job};

const BY_PROGRAM: &str = "[[rule]]\naccount = \"speech\"\nprogram = \"train.py\"\n";
const BY_ARGV: &str = "[[rule]]\naccount = \"run-${n}\"\nargv = { regex = '--run=(?<n>.*)' }\n";

/// A bundle in the making: its drafts, and the files that they go with.
struct World {
    drafts: Vec<Draft>,
    rules: Vec<&'static str>,
    has_argv: bool,
}

fn world(jobs: &[Job]) -> World {
    let key = CommitmentKey::new([3; 32]);
    let drafts = jobs.iter().map(|job| job.draft(Some(&key))).collect();
    World { drafts, rules: Vec::new(), has_argv: true }
}

fn job(number: u32) -> Job {
    Job::of(100 + number, EPOCH_MS + u64::from(number) * 10_000, 5_000)
}

fn figures(draft: &mut Draft) -> &mut SettlementFigures {
    match &mut draft.figures {
        Figures::Settlement(figures) => figures,
        other => panic!("{other:?}"),
    }
}

fn evidence(draft: &mut Draft) -> &mut SettlementEvidence {
    match &mut draft.evidence {
        Evidence::Settlement(evidence) => evidence,
        other => panic!("{other:?}"),
    }
}

impl World {
    /// Says that every settlement was made by these rules.
    fn by(mut self, rules: &'static str) -> Self {
        for draft in &mut self.drafts {
            let digest = RuleSet::parse(rules.as_bytes()).unwrap().digest();
            evidence(draft).provenance.as_mut().unwrap().rules = Some(digest);
        }
        self.rules.push(rules);
        self
    }

    /// Puts every settlement on an account.
    fn on(mut self, name: &dyn Fn(u32) -> String) -> Self {
        for draft in &mut self.drafts {
            let pid = figures(draft).pid.0;
            figures(draft).account =
                Account::Ruled { name: name(pid).as_str().into(), rule: RuleId(1) };
        }
        self
    }

    fn sealed(&self) -> Vec<Sealed> {
        let mut end = Recovered::default();
        let began = [
            Figures::Coverage(CoverageEdge::Began {
                at: made::stamp(EPOCH_MS),
                host: "gpuhost".into(),
                device_touch: true,
                process_events: true,
            }),
            Figures::Epoch(Epoch {
                gpu: made::gpu(1),
                at: made::stamp(EPOCH_MS),
                edge: EpochEdge::Began { index: 0, name: None },
            }),
        ];
        let began = began.map(|figures| made::draft(EPOCH_MS, figures, Evidence::None));
        let drafts = began.into_iter().chain(self.drafts.iter().cloned());
        drafts.map(|draft| end.seal(draft).unwrap()).collect()
    }

    /// Writes it with the bill that its entries make, and opens it.
    fn bundle(&self, folder: &Path, changed: Option<(&str, usize)>) -> Bundle {
        let sealed = self.sealed();
        let path: PathBuf = folder.join("bundle");
        let _ = std::fs::remove_dir_all(&path);
        let mut made = MadeBundle::of(&sealed, 'a', (EPOCH_MS, EPOCH_MS + DAY_MS));
        for rules in &self.rules {
            let name = format!("{RULES_DIR}/{}.toml", sha256(rules.as_bytes()));
            made.files.insert(name, rules.as_bytes().to_vec());
        }
        let kept = self.drafts.iter().filter_map(|draft| draft.argv.as_ref());
        let lines: String = kept.filter(|_| self.has_argv).map(line).collect();
        made.files.insert(crate::audit::layout::ARGV.to_owned(), lines.into_bytes());
        made.write(&path);
        // The bill of what was written, as it will be made again.
        let bundle = Bundle::open(&path).unwrap();
        let mut maker = BillMaker::new(crate::bill::By::Account);
        for one in bundle.all().unwrap() {
            let one = one.unwrap();
            maker.take(&one.entry, || one.because()).unwrap();
        }
        let users = bundle.manifest().bill.users.clone();
        let (asked, root) = (asked(&bundle).unwrap(), root(&bundle).unwrap());
        let report = maker.finish().unwrap().report(asked, root, users).unwrap();
        for name in [BILL_JSON, BILL_CSV, BILL_TXT] {
            let mut bytes = document(name, &report).unwrap().unwrap();
            if let Some((_, at)) = changed.filter(|(changed, _)| *changed == name) {
                bytes[at] ^= 1;
            }
            made.files.insert(name.to_owned(), bytes);
        }
        made.write(&path);
        Bundle::open(&path).unwrap()
    }

    fn replayed(&self) -> Replayed {
        replay(&self.bundle(tempfile::tempdir().unwrap().path(), None)).unwrap()
    }
}

fn line(kept: &KeptArgv) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.encode(&kept.argv.bytes);
    let line = serde_json::json!({
        "commitment": kept.commitment.to_string(),
        "mode": kept.mode.map(|mode| mode.to_string()),
        "text": kept.text.as_str(),
        "state": "whole",
        "true_length": kept.argv.true_length,
        "bytes": bytes,
    });
    format!("{line}\n")
}

fn schema_faults(replayed: &Replayed) -> Vec<String> {
    let schema = include_str!("../../../schema/audit-replay.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json(replayed).unwrap()).unwrap();
    schema.iter_errors(&value).map(|fault| fault.to_string()).collect()
}

#[test]
fn what_was_made_of_its_evidence_is_the_same_again_byte_for_byte() {
    let replayed = world(&[job(1), job(2), job(3)]).replayed();
    assert_eq!((replayed.verdict, replayed.status()), (Verdict::Same, 0), "{replayed:?}");
    assert_eq!((replayed.settlements, replayed.same), (3, 3));
    assert!(replayed.documents.iter().all(|one| one.state == DocumentState::Same));
    assert_eq!(replayed.documents.len(), 3);
    assert_eq!(schema_faults(&replayed), Vec::<String>::new());
    let page = render(&replayed);
    assert!(page.contains("settlements: 3, derived again and the same 3\n"), "{page}");
    assert!(page.ends_with("replay: same (the same, byte for byte)\n"), "{page}");
}

#[test]
fn every_figure_that_the_evidence_says_otherwise_is_listed_with_both_values() {
    type Change = fn(&mut SettlementFigures);
    let changes: [(&str, Change, &str, &str); 6] = [
        ("held_ms", |figures| figures.held = Ms(5_001), "5001", "5000"),
        ("pid", |figures| figures.pid = Pid(9), "9", "102"),
        ("start_us", |figures| figures.start = None, "none", "1700000020000000"),
        ("uid", |figures| figures.uid = Some(1_001), "1001", "1000"),
        ("memory_peak", |figures| figures.memory_peak = Some(Bytes(7)), "7", "1073741824"),
        ("basis", |figures| figures.basis = None, "none", "exec"),
    ];
    for (what, change, entered, derived) in changes {
        let mut world = world(&[job(1), job(2)]);
        change(figures(&mut world.drafts[1]));
        let replayed = world.replayed();
        let (entered, derived) = (entered.to_owned(), derived.to_owned());
        assert_eq!(replayed.differences, [Difference { seq: 4, what, entered, derived }]);
        assert_eq!((replayed.status(), replayed.same), (1, 1));
        assert_eq!(schema_faults(&replayed), Vec::<String>::new());
    }
}

#[test]
fn an_account_is_what_the_rules_make_of_it_that_its_entry_names() {
    let by_program = |name: &'static str| {
        world(&[job(1), job(2)]).by(BY_PROGRAM).on(&move |_| name.to_owned()).replayed()
    };
    assert_eq!(by_program("speech").verdict, Verdict::Same);
    let other = by_program("mine");
    assert_eq!(other.differences_total, 2);
    let Difference { what, entered, derived, .. } = &other.differences[0];
    assert_eq!((*what, &**entered, &**derived), ("account", "mine (rule 1)", "speech (rule 1)"));
    // By what is kept of the arguments.
    let runs = || world(&[job(1), job(2)]).by(BY_ARGV).on(&|pid| format!("run-{}", pid % 40));
    assert_eq!(runs().replayed().verdict, Verdict::Same);
    assert_eq!(runs().on(&|_| "run-0".to_owned()).replayed().differences_total, 2);
}

#[test]
fn what_cannot_be_derived_any_more_is_counted_and_is_no_difference() {
    let undecided = |world: World, why| {
        let replayed = world.replayed();
        assert_eq!((replayed.verdict, replayed.status()), (Verdict::SameAsFarAsKnown, 2));
        assert_eq!(replayed.undecided, [Undecided { why, settlements: 2 }]);
        assert_eq!((replayed.same, replayed.differences_total), (0, 0));
        assert_eq!(schema_faults(&replayed), Vec::<String>::new());
    };
    let runs = || world(&[job(1), job(2)]).by(BY_ARGV).on(&|pid| format!("run-{}", pid % 40));
    undecided(World { has_argv: false, ..runs() }, Why::EvidenceErased);
    undecided(World { rules: Vec::new(), ..runs() }, Why::RulesNotInBundle);
    let mut older = runs();
    older.drafts.iter_mut().for_each(|draft| evidence(draft).provenance = None);
    undecided(older, Why::NoProvenance);
    // With the mode `exe` no more than the file was kept, and an earlier run may have kept all.
    let mut jobs = [job(1), job(2)];
    for job in &mut jobs {
        job.cmdline = CmdlineMode::Exe;
    }
    undecided(world(&jobs).by(BY_ARGV).on(&|_| "run-7".to_owned()), Why::ArgvRedacted);
    // Rules that look at nothing that is erased decide all the same.
    let erased = world(&[job(1)]).by(BY_PROGRAM).on(&|_| "speech".to_owned());
    assert_eq!(World { has_argv: false, ..erased }.replayed().verdict, Verdict::Same);
}

#[test]
fn a_form_of_the_bill_that_is_another_is_found_with_its_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(&[job(1), job(2)]);
    for (name, at) in [(BILL_JSON, 40), (BILL_CSV, 0), (BILL_TXT, 200)] {
        let replayed = replay(&world.bundle(folder.path(), Some((name, at)))).unwrap();
        let differs: Vec<_> =
            replayed.documents.iter().filter(|one| one.state == DocumentState::Differs).collect();
        let first_byte = u64::try_from(at).ok();
        let expected =
            Document { file: name.to_owned(), state: DocumentState::Differs, first_byte };
        assert_eq!(differs, [&expected]);
        assert_eq!(replayed.status(), 1);
    }
}
