//! One history per rule.

mod epochs;
mod evicted_while_read;

use super::model::{Model, handed_out, harvest, row};
use super::*;
use crate::accounting::reading::Listing;
use crate::unit::{Bytes, Ms, WallUs};
use crate::unknown::Observed;

fn gaps(seen: &Observation) -> Vec<(GapCause, Option<u64>)> {
    let gaps = seen.findings.iter().filter_map(|finding| match finding {
        Finding::Gap(gap) => Some((gap.cause, gap.size)),
        _ => None,
    });
    gaps.collect()
}

fn reasons(seen: &Observation) -> Vec<UnknownReason> {
    seen.unknowns.iter().map(|unknown| unknown.reason).collect()
}

fn started() -> (Model, Harvest) {
    let (mut model, mut harvest) = (Model::on(), harvest());
    model.read_quietly(&mut harvest);
    (model, harvest)
}

#[test]
fn a_row_that_was_final_before_the_first_read_is_known_and_not_news() {
    let (mut model, mut harvest) = (Model::on(), harvest());
    model.burst(2);
    model.pass(5_000);
    let seen = model.read_quietly(&mut harvest);
    let known = seen.findings.iter().filter(|f| matches!(f, Finding::AlreadyDead(_))).count();
    assert_eq!((known, handed_out(&seen).len()), (2, 2));
    model.burst(1);
    let seen = model.read_quietly(&mut harvest);
    assert!(matches!(seen.findings.as_slice(), [Finding::Final(_)]), "{seen:?}");
}

#[test]
fn a_running_row_is_open_and_handed_out_only_when_final() {
    let (mut model, mut harvest) = started();
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    assert!(matches!(seen.findings.as_slice(), [Finding::Opened(_)]), "{seen:?}");
    assert!(model.read_quietly(&mut harvest).findings.is_empty());
    assert_eq!(harvest.open().len(), 1);
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    assert!(matches!(seen.findings.as_slice(), [Finding::Final(_)]), "{seen:?}");
    assert!(harvest.open().is_empty());
    assert!(model.read_quietly(&mut harvest).findings.is_empty());
}

#[test]
fn eviction_of_everything_known_is_counted_by_the_exits() {
    let (mut model, mut harvest) = started();
    model.burst(3);
    model.read_quietly(&mut harvest);
    model.burst(150);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::RowsPossiblyEvicted, Some(22))]);
    assert_eq!(handed_out(&seen).len(), DEAD_ROWS_MAX);
    assert_eq!(harvest.dead_rows_max(), DEAD_ROWS_MAX);
}

#[test]
fn lost_events_leave_the_size_of_an_eviction_open() {
    let (mut model, mut harvest) = started();
    model.burst(3);
    model.read_quietly(&mut harvest);
    model.burst(150);
    let (seen, _) = model.read(&mut harvest, None, false, |_| {});
    assert_eq!(gaps(&seen), [(GapCause::RowsPossiblyEvicted, None)]);
}

#[test]
fn one_surviving_row_proves_that_nothing_younger_was_evicted() {
    let (mut model, mut harvest) = started();
    model.burst(100);
    model.read_quietly(&mut harvest);
    // 27 of the old rows are evicted, 73 stay, all 55 new ones are there.
    model.burst(55);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![], 55));
    // What was evicted in order cannot come back, and is forgotten.
    assert_eq!(harvest.booked_keys(), DEAD_ROWS_MAX);
}

#[test]
fn a_store_that_was_empty_and_is_not_full_has_lost_nothing() {
    let (mut model, mut harvest) = started();
    model.burst(127);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), []);
    let (mut model, mut harvest) = started();
    model.burst(129);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::RowsPossiblyEvicted, Some(1))]);
}

#[test]
fn a_clear_is_found_even_when_its_pids_are_in_use_again() {
    let (mut model, mut harvest) = started();
    model.burst(2);
    model.open(7);
    model.close(7);
    model.read_quietly(&mut harvest);
    model.clear();
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::ClearedOrReset, Some(0))]);
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn a_row_seen_open_that_goes_with_the_store_is_counted_once_before_its_exit_is_told() {
    let (mut model, mut harvest) = started();
    model.burst(2);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.close(7);
    model.clear();
    // Its exit is told with the next read only.
    let seen = model.read(&mut harvest, Some(0), false, |_| {}).0;
    assert_eq!(gaps(&seen), [(GapCause::ClearedOrReset, Some(1))]);
    model.open(8);
    model.close(8);
    model.read_quietly(&mut harvest);
    assert_eq!(harvest.exits_unwitnessed(), 0, "the exit was counted with its row");
}

#[test]
fn a_lone_witness_replaced_by_its_own_pid_is_overwritten_and_not_cleared() {
    let (mut model, mut harvest) = started();
    for _ in 0..2 {
        model.open(7);
        model.close(7);
        model.pass(5_000);
    }
    model.read_quietly(&mut harvest);
    model.open(7);
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::RowOverwritten, Some(0))]);
    assert_eq!(handed_out(&seen).len(), 1);
}

#[test]
fn an_open_row_replaced_before_it_was_final_is_one_loss_bounded_by_the_next_start() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.close(7);
    model.open(7);
    let next = model.stamp().wall;
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::RowOverwritten, Some(1))]);
    let bound = seen.findings.iter().find_map(|finding| match finding {
        Finding::OpenLost { ended_before, .. } => *ended_before,
        _ => None,
    });
    assert_eq!(bound, Some(next));
    assert_eq!(handed_out(&seen).len(), 1);
}

#[test]
fn ten_spans_of_one_context_read_in_between_are_ten_rows() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.read_quietly(&mut harvest);
    let mut rows = 0;
    for _ in 0..10 {
        model.open(7);
        model.pass(2_000);
        model.close(7);
        let seen = model.read_quietly(&mut harvest);
        assert_eq!(gaps(&seen), []);
        rows += handed_out(&seen).len();
    }
    assert_eq!(rows, 10);
}

#[test]
fn a_row_hidden_by_its_pids_dead_row_is_open_without_a_start() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.close(7);
    model.read_quietly(&mut harvest);
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    let [Finding::Masked(open)] = seen.findings.as_slice() else { panic!("{seen:?}") };
    assert_eq!((open.start, open.reason), (None, Some(UnknownReason::MaskedByDeadRow)));
    assert!(model.read_quietly(&mut harvest).findings.is_empty());
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(handed_out(&seen).len(), 1);
    assert!(harvest.open().is_empty());
}

#[test]
fn a_hidden_row_that_was_thrown_away_breaks_the_epoch() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.open(7);
    model.close(7);
    model.read_quietly(&mut harvest);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    model.set_mode(true);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), [(GapCause::EpochBroken, Some(1))]);
}

#[test]
fn a_mode_switched_off_and_on_unseen_breaks_the_epoch_of_every_open_row() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.open(7);
    model.open(8);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    model.set_mode(true);
    model.open(8);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::EpochBroken, Some(2))]);
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn rows_that_come_back_after_mode_off_are_not_handed_out_again() {
    let (mut model, mut harvest) = started();
    model.burst(3);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(reasons(&seen), [UnknownReason::AccountingModeDisabled]);
    let [Finding::Gap(_), Finding::EpochEnded { .. }] = seen.findings.as_slice() else {
        panic!("{seen:?}")
    };
    assert!(harvest.open().is_empty());
    model.set_mode(true);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::AccountingOff, None)]);
    assert_eq!(handed_out(&seen).len(), 0);
    let lost = seen
        .findings
        .iter()
        .any(|f| matches!(f, Finding::OpenLost { cause: GapCause::AccountingOff, .. }));
    assert!(lost, "{seen:?}");
}

#[test]
fn accounting_that_stays_off_ends_as_a_gap() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    model.read_quietly(&mut harvest);
    let findings = harvest.in_doubt(model.stamp());
    let seen = Observation { findings, unknowns: Vec::new() };
    assert_eq!(gaps(&seen), [(GapCause::AccountingOff, None)]);
}

#[test]
fn cleared_keys_that_come_back_with_other_contents_are_a_conflict_once() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    let seen = model.read_quietly(&mut harvest);
    let [key] = handed_out(&seen)[..] else { panic!("{seen:?}") };
    let changed = row(key, 999_999, false);
    let read = |model: &Model| {
        let answers = BTreeMap::from([(key.0, Answer::Row(changed.clone()))]);
        let content = ReadContent::Listed(Listing { pids: vec![key.0], junk_pids: 2, answers });
        let window = Window { began: model.stamp(), ended: model.stamp() };
        GpuRead { window, touching_exits: Some(0), content }
    };
    let seen = harvest.observe(&read(&model));
    let conflicts = seen.findings.iter().filter(|f| matches!(f, Finding::Conflict { .. })).count();
    assert_eq!((conflicts, handed_out(&seen).len()), (1, 0));
    assert!(seen.findings.contains(&Finding::JunkPids { count: 2 }));
    let seen = harvest.observe(&read(&model));
    assert!(!seen.findings.iter().any(|f| matches!(f, Finding::Conflict { .. })), "{seen:?}");
}

fn answered(model: &Model, answers: Vec<(u32, Answer)>) -> GpuRead {
    let pids = answers.iter().map(|(pid, _)| Pid(*pid)).collect();
    let answers = answers.into_iter().map(|(pid, answer)| (Pid(pid), answer)).collect();
    let content = ReadContent::Listed(Listing { pids, junk_pids: 0, answers });
    let window = Window { began: model.stamp(), ended: model.stamp() };
    GpuRead { window, touching_exits: Some(0), content }
}

#[test]
fn a_final_row_without_a_start_is_handed_out_nameless_once() {
    let (model, mut harvest) = started();
    let mut nameless = row((Pid(9), 0), 40, false);
    nameless.start = None;
    let read = answered(&model, vec![(9, Answer::Row(nameless))]);
    let seen = harvest.observe(&read);
    assert!(matches!(seen.findings.as_slice(), [Finding::NoStartTime(_)]), "{seen:?}");
    assert_eq!(reasons(&seen), [UnknownReason::NoStartTime]);
    assert!(harvest.observe(&read).findings.is_empty());
}

/// The gaps that would be left if no further read came.
fn left_in_doubt(model: &Model, harvest: &Harvest) -> Vec<(GapCause, Option<u64>)> {
    let findings = harvest.in_doubt(model.stamp());
    gaps(&Observation { findings, unknowns: Vec::new() })
}

#[test]
fn a_listed_row_that_cannot_be_found_is_vanished_and_all_of_them_a_reset() {
    let (model, mut harvest) = started();
    let living = Answer::Row(row((Pid(8), model.stamp().wall.0 - 5), 0, true));
    let seen = harvest.observe(&answered(&model, vec![(8, living), (9, Answer::Gone)]));
    assert_eq!((gaps(&seen), reasons(&seen)), (vec![], vec![UnknownReason::RowVanished]));
    assert_eq!(left_in_doubt(&model, &harvest), [(GapCause::RowVanished, Some(1))]);

    let (model, mut harvest) = started();
    let seen = harvest.observe(&answered(&model, vec![(8, Answer::Gone), (9, Answer::Gone)]));
    assert_eq!((gaps(&seen), reasons(&seen)), (vec![], vec![UnknownReason::AccountingModeReset]));
    assert_eq!(left_in_doubt(&model, &harvest), [(GapCause::EpochBroken, Some(2))]);
}

#[test]
fn a_row_that_is_never_found_is_counted_once_however_often_it_was_asked_for() {
    let (mut model, mut harvest) = started();
    model.burst(3);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.open(8);
    model.burst(1);
    model.rows_fail = true;
    for _ in 0..5 {
        let seen = model.read_quietly(&mut harvest);
        assert_eq!(reasons(&seen), [UnknownReason::AccountingModeReset]);
        // Three rows were handed out, and are nobody's loss; no exit of this interval has a row yet.
        let sized = gaps(&seen).into_iter().filter(|gap| gap.0 == GapCause::EpochBroken);
        assert_eq!(sized.count(), 0, "{seen:?}");
    }
    // The one seen open, the one opened since, and the one that came and went.
    assert_eq!(left_in_doubt(&model, &harvest), [(GapCause::EpochBroken, Some(3))]);
    assert!(harvest.open().is_empty(), "nobody knows that it runs");
}

#[test]
fn rows_that_are_found_again_were_not_lost() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.read_quietly(&mut harvest);
    model.open(8);
    model.burst(1);
    model.rows_fail = true;
    model.read_quietly(&mut harvest);
    model.rows_fail = false;
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![], 1));
    let opened = seen.findings.iter().filter(|f| matches!(f, Finding::Opened(_))).count();
    assert_eq!((opened, harvest.open().len()), (1, 2), "only the one of pid 8 is news");
    assert_eq!(left_in_doubt(&model, &harvest), []);
}

#[test]
fn rows_that_leave_the_list_without_having_been_found_are_lost_then() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.read_quietly(&mut harvest);
    model.open(7);
    model.open(8);
    model.rows_fail = true;
    model.read_quietly(&mut harvest);
    model.read_quietly(&mut harvest);
    model.rows_fail = false;
    model.set_mode(false);
    model.set_mode(true);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::EpochBroken, Some(2))]);
    assert_eq!(left_in_doubt(&model, &harvest), []);
}

#[test]
fn a_failed_question_proves_nothing_and_loses_nothing() {
    let (mut model, mut harvest) = started();
    model.burst(2);
    model.open(7);
    model.read_quietly(&mut harvest);
    let why = Unknown::of(UnknownReason::NvmlUnknownError);
    let seen = harvest.observe(&answered(&model, vec![(7, Answer::Unread(why.clone()))]));
    assert_eq!((gaps(&seen), reasons(&seen)), (vec![], vec![why.reason]));
    assert_eq!(harvest.open().len(), 1);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![], 0));
}

#[test]
fn a_gpu_lost_in_the_middle_leaves_open_rows_in_doubt() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.read_quietly(&mut harvest);
    let window = Window { began: model.stamp(), ended: model.stamp() };
    let content = ReadContent::Failed(Unknown::of(UnknownReason::GpuLost));
    let seen = harvest.observe(&GpuRead { window, touching_exits: Some(0), content });
    assert_eq!(reasons(&seen), [UnknownReason::GpuLost]);
    assert!(harvest.open().is_empty());
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(gaps(&seen), [(GapCause::EpochBroken, None)]);
    assert_eq!(handed_out(&seen).len(), 1, "the row was not lost after all");
}

#[test]
fn an_empty_list_is_unknown_until_nothing_can_have_happened() {
    let (mut model, mut harvest) = (Model::on(), harvest());
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(reasons(&seen), [UnknownReason::EmptyAccountedList]);
    let seen = model.read_quietly(&mut harvest);
    assert!(matches!(seen.findings.as_slice(), [Finding::ObservedIdle { .. }]), "{seen:?}");
    let (seen, _) = model.read(&mut harvest, None, false, |_| {});
    assert_eq!(reasons(&seen), [UnknownReason::EmptyAccountedList]);
}

#[test]
fn outside_the_initial_namespace_dead_rows_are_said_to_be_hidden() {
    let mut model = Model::on();
    let mut harvest = Harvest::new(GpuUuid(model::GPU.into()), true);
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(reasons(&seen), [UnknownReason::DeadRowsHiddenByPidNamespace]);
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn a_mode_that_changed_during_the_read_discards_the_list() {
    let (model, mut harvest) = started();
    let window = Window { began: model.stamp(), ended: model.stamp() };
    let content = ReadContent::ModeChanged { on: false };
    let seen = harvest.observe(&GpuRead { window, touching_exits: Some(0), content });
    assert_eq!(reasons(&seen), [UnknownReason::AccountingModeChangedDuringRead]);
}

#[test]
fn a_plan_asks_about_what_is_new_open_or_moved_and_one_witness() {
    let (mut model, mut harvest) = started();
    model.burst(20);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.open(8);
    let plan = harvest.plan(&model.list(), &BTreeMap::new(), false);
    assert_eq!(plan, BTreeSet::from([Pid(7), Pid(8), Pid(1_019)]));
    let everything = harvest.plan(&model.list(), &BTreeMap::new(), true);
    assert_eq!(everything.len(), 22);
}

#[test]
fn a_row_keeps_what_settlement_needs() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.pass(3_000_000);
    model.close(7);
    let seen = model.read_quietly(&mut harvest);
    let [Finding::Final(row)] = seen.findings.as_slice() else { panic!("{seen:?}") };
    assert_eq!(row.row.held, Ms(3_000));
    assert_eq!(row.row.memory_peak, Observed::Known(Bytes(1 << 20)));
    let end = row.row.start.map(|WallUs(start)| start + 3_000_000);
    assert!(end < Some(row.seen.began.wall.0), "seen after it ended");
}
