//! A read takes time, and a busy store moves under it.

use super::*;

/// A full store, read; then a sweep of it, `between` of which gets the number of each question.
fn swept(between: impl Fn(&mut Model, u32)) -> (Model, Harvest, Observation) {
    let (mut model, mut harvest) = started();
    for _ in 0..2 {
        model.burst(64);
        model.read_quietly(&mut harvest);
    }
    let (exits, mut question) = (std::mem::take(&mut model.deaths), 0);
    let (seen, _) = model.read(&mut harvest, Some(exits), true, |model| {
        between(model, question);
        question += 1;
    });
    (model, harvest, seen)
}

#[test]
fn rows_evicted_between_two_questions_of_a_sweep_were_not_cleared() {
    // The oldest row is asked for and found; then it and the next are evicted, and that one is not found.
    let (mut model, mut harvest, seen) = swept(|model, question| {
        if question == 1 {
            model.burst(2);
        }
    });
    assert_eq!((gaps(&seen), reasons(&seen)), (vec![], vec![]));
    assert_eq!(harvest.dead_rows(), Some(DEAD_ROWS_MAX));
    let seen = model.read_quietly(&mut harvest);
    assert_eq!((gaps(&seen), handed_out(&seen).len()), (vec![], 2));
    assert_eq!(harvest.booked_keys(), DEAD_ROWS_MAX, "what was evicted in order is forgotten");
}

#[test]
fn unread_are_the_rows_that_the_last_list_was_the_first_to_show() {
    let (mut model, mut harvest) = (Model::on(), harvest());
    model.burst(20);
    model.pass(5_000);
    model.read_quietly(&mut harvest);
    assert_eq!(harvest.unread_rows(), 0, "they were over before anyone looked");
    for (jobs, dead) in [(40, 60), (100, 128), (0, 128), (1, 128)] {
        model.burst(jobs);
        assert_eq!(gaps(&model.read_quietly(&mut harvest)), []);
        assert_eq!(harvest.unread_rows(), usize::try_from(jobs).unwrap());
        assert_eq!(harvest.dead_rows(), Some(dead), "a full store that is read is no danger");
    }
}

#[test]
fn a_dead_row_evicted_from_before_its_pids_running_one_was_not_cleared() {
    let (mut model, mut harvest) = started();
    model.open(1_399);
    model.close(1_399);
    model.burst(127);
    model.read_quietly(&mut harvest);
    model.open(1_399);
    model.read_quietly(&mut harvest);
    let mut question = 0;
    let (seen, _) = model.read(&mut harvest, Some(0), true, |model| {
        // That pid is the last to be asked for.
        question += 1;
        if question == 128 {
            model.burst(1);
        }
    });
    assert_eq!(gaps(&seen), []);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), []);
    assert_eq!(harvest.open().len(), 1);
}

#[test]
fn a_row_that_took_its_pids_place_while_it_was_read_is_the_youngest() {
    let (mut model, mut harvest) = started();
    model.open(5);
    model.close(5);
    model.burst(100);
    model.open(5);
    model.read_quietly(&mut harvest);
    let mut question = 0;
    model.read(&mut harvest, Some(0), false, |model| {
        if question == 0 {
            model.close(5);
        }
        question += 1;
    });
    // Thirty of the rows that stood behind the older one give way, and it stays.
    model.burst(57);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), []);
}

#[test]
fn a_store_cleared_between_two_questions_is_found_so_with_the_next_list() {
    let (mut model, mut harvest, seen) = swept(|model, question| {
        if question == 127 {
            model.clear();
        }
    });
    // The youngest row alone was not found, and nothing younger says what it was.
    assert_eq!(gaps(&seen), [(GapCause::RowsPossiblyEvicted, Some(0))]);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), [(GapCause::ClearedOrReset, Some(0))]);
    assert_eq!(gaps(&model.read_quietly(&mut harvest)), []);
}

#[test]
fn a_store_cleared_after_rows_were_evicted_from_under_a_sweep_is_found_so() {
    let (mut model, mut harvest, _) = swept(|model, question| {
        if question == 1 {
            model.burst(2);
        }
    });
    model.clear();
    let seen = model.read_quietly(&mut harvest);
    // The two that died while the sweep went on were lost with the rest.
    assert_eq!(gaps(&seen), [(GapCause::ClearedOrReset, Some(2))]);
}
