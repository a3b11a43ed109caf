//! Epochs that end and begin, rows that are listed and not found, and what is asked for again.

use super::*;

#[test]
fn what_was_not_seen_is_told_as_soon_as_accounting_is_found_off_and_the_rest_when_it_is_on_again() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    let list = model.read_quietly(&mut harvest);
    let listed = list.findings.iter().find_map(|finding| match finding {
        Finding::Final(row) => Some(row.seen.began),
        _ => None,
    });
    model.set_mode(false);
    let found_off = model.read_quietly(&mut harvest);
    let stays_off = model.read_quietly(&mut harvest);
    model.set_mode(true);
    let found_on = model.read_quietly(&mut harvest);
    let gap = |seen: &Observation| {
        seen.findings.iter().find_map(|finding| finding.clone().into_gap()).unwrap()
    };
    let (first, second) = (gap(&found_off), gap(&found_on));
    // Ahead of the epoch's end: an agent that dies in between has said too much, not too little.
    assert!(matches!(found_off.findings[1], Finding::EpochEnded { at, .. } if at == first.to));
    assert_eq!((first.cause, Some(first.from)), (GapCause::AccountingOff, listed));
    assert!(stays_off.findings.is_empty(), "{stays_off:?}");
    assert_eq!((second.cause, second.from), (GapCause::AccountingOff, first.to));
}

#[test]
fn a_row_that_was_not_found_before_accounting_went_off_is_unseen_since_it_was_found_last() {
    let (mut model, mut harvest) = started();
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    let [Finding::Opened(open)] = seen.findings.as_slice() else { panic!("{seen:?}") };
    model.rows_fail = true;
    model.read_quietly(&mut harvest);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    let seen = model.read_quietly(&mut harvest);
    let gap = seen.findings.iter().find_map(|finding| finding.clone().into_gap());
    assert_eq!(gap.map(|gap| gap.from), Some(open.first_seen.began));
}

#[test]
fn an_epoch_begins_with_a_list_of_which_every_row_was_read() {
    let (mut model, mut harvest) = (Model::on(), harvest());
    let why = Unknown::of(UnknownReason::NvmlUnknownError);
    let begins = |seen: &Observation| {
        seen.findings.iter().any(|finding| matches!(finding, Finding::EpochBegan { .. }))
    };
    let seen = harvest.observe(&answered(&model, vec![(7, Answer::Unread(why.clone()))]));
    assert!(!begins(&seen), "pid 7 may be anybody: {seen:?}");
    assert!(begins(&model.read_quietly(&mut harvest)));
    model.set_mode(false);
    model.read_quietly(&mut harvest);
    model.set_mode(true);
    let seen = harvest.observe(&answered(&model, vec![(7, Answer::Unread(why))]));
    assert!(!begins(&seen) && gaps(&seen).is_empty(), "{seen:?}");
    let seen = model.read_quietly(&mut harvest);
    assert!(begins(&seen));
    assert_eq!(gaps(&seen), [(GapCause::AccountingOff, None)]);
}

#[test]
fn what_hides_behind_a_dead_row_after_its_epoch_ended_is_another_one() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.close(7);
    model.read_quietly(&mut harvest);
    model.open(7);
    model.read_quietly(&mut harvest);
    model.set_mode(false);
    model.read_quietly(&mut harvest);
    model.set_mode(true);
    model.open(7);
    let seen = model.read_quietly(&mut harvest);
    let lost = seen
        .findings
        .iter()
        .position(|one| matches!(one, Finding::OpenLost { cause: GapCause::AccountingOff, .. }));
    let masked = seen.findings.iter().position(|one| matches!(one, Finding::Masked(_)));
    assert!(lost.is_some() && lost < masked, "{seen:?}");
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn of_a_pid_that_was_listed_twice_in_vain_and_is_found_once_one_row_is_lost() {
    let (mut model, mut harvest) = started();
    model.burst(1);
    model.read_quietly(&mut harvest);
    model.open(7);
    model.close(7);
    model.open(7);
    model.rows_fail = true;
    model.read_quietly(&mut harvest);
    // The live one ends and takes the place of the dead one, which nobody has read.
    model.close(7);
    model.rows_fail = false;
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![(GapCause::EpochBroken, Some(1))], 1));
}

#[test]
fn of_a_pid_that_was_listed_twice_in_vain_and_is_found_twice_nothing_is_lost() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.close(7);
    model.open(7);
    model.rows_fail = true;
    model.read_quietly(&mut harvest);
    model.rows_fail = false;
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![], 1));
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn only_what_is_asked_for_again_is_handed_out_again() {
    let (mut model, mut harvest) = started();
    model.open(7);
    model.close(7);
    model.open(8);
    model.close(8);
    model.open(9);
    let seen = model.read_quietly(&mut harvest);
    let keys = handed_out(&seen);
    let open = harvest.open()[0].start;
    let key = |key: &(Pid, u64)| (key.0, Some(WallUs(key.1)));
    harvest.hand_out_again(Again::Rows(BTreeSet::from([key(&keys[0]), (Pid(9), open)])));
    let seen = model.read_quietly(&mut harvest);
    assert_eq!(handed_out(&seen), keys[..1]);
    let opened = seen.findings.iter().filter(|one| matches!(one, Finding::Opened(_))).count();
    assert_eq!((opened, gaps(&seen)), (1, vec![]));
    harvest.hand_out_again(Again::All);
    assert_eq!(handed_out(&model.read_quietly(&mut harvest)).len(), 2);
    assert!(handed_out(&model.read_quietly(&mut harvest)).is_empty(), "once");
}
