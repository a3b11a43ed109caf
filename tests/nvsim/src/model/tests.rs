//! The driver's rules, each by name.

use super::*;
use crate::protocol::Use;

pub(super) const SECOND_US: u64 = 1_000_000;
/// When the tests' wall clock begins.
const WALL_US: u64 = 1_700_000_000_000_000;

pub(super) fn at(mono_us: u64) -> Moment {
    Moment { mono_us: mono_us + SECOND_US, wall_us: WALL_US + mono_us }
}

pub(super) fn gpu() -> Gpu {
    Gpu::new(&Setup { accounting: true, seed: 7 })
}

fn job(memory_bytes: u64) -> Use {
    Use { memory_bytes, channel: true, busy_percent: 0, memory_busy_percent: 0 }
}

pub(super) fn busy(percent: u32) -> Use {
    Use { busy_percent: percent, memory_busy_percent: percent / 2, ..job(1 << 20) }
}

fn start(gpu: &mut Gpu, pid: Pid, mono_us: u64) -> ObjectId {
    let (object, _) = gpu.open(pid, at(mono_us));
    gpu.set_use(object, job(1 << 20), at(mono_us));
    object
}

/// A whole life of a process.
fn live_through(gpu: &mut Gpu, pid: Pid, from_us: u64, to_us: u64) {
    let object = start(gpu, pid, from_us);
    gpu.close(object, at(to_us));
}

pub(super) fn host(gpu: &Gpu, pid: Pid) -> Option<Stats> {
    gpu.accounting_stats(pid, View::Host)
}

#[test]
fn rule_1_entries_are_keyed_by_pid() {
    let mut gpu = gpu();
    start(&mut gpu, 10, 0);
    start(&mut gpu, 11, 5);
    assert_eq!(gpu.accounting_pids(View::Host), [10, 11]);
    assert_eq!(host(&gpu, 10).unwrap().start_us, WALL_US);
    assert_eq!(host(&gpu, 11).unwrap().start_us, WALL_US + 5);
    assert_eq!(host(&gpu, 12), None);
}

#[test]
fn rule_2_the_first_object_stamps_the_start_and_later_ones_only_count() {
    let mut gpu = gpu();
    let first = start(&mut gpu, 10, 100);
    let second = start(&mut gpu, 10, 900);
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    assert_eq!(host(&gpu, 10).unwrap().start_us, WALL_US + 100);
    gpu.close(first, at(1_000));
    assert!(host(&gpu, 10).unwrap().running);
    gpu.close(second, at(2_100));
    assert_eq!(host(&gpu, 10).unwrap().time_ms, 2);
}

#[test]
fn rule_3_and_s13_a_monitor_is_never_listed_and_its_entry_is_thrown_away() {
    let mut gpu = gpu();
    let (monitor, _) = gpu.open(10, at(0));
    assert!(gpu.accounting_pids(View::Host).is_empty());
    assert_eq!(host(&gpu, 10), None);
    assert!(gpu.holders().is_empty());
    gpu.close(monitor, at(SECOND_US));
    assert!(gpu.accounting_pids(View::Host).is_empty());
}

#[test]
fn rule_3_a_channel_alone_or_memory_alone_makes_an_entry_billable() {
    let mut gpu = gpu();
    let channel = Use { channel: true, ..Use::default() };
    let memory = Use { memory_bytes: 1, ..Use::default() };
    for (pid, usage) in [(10, channel), (11, memory)] {
        let (object, _) = gpu.open(pid, at(0));
        assert_eq!(host(&gpu, pid), None);
        gpu.set_use(object, usage, at(1));
        assert!(host(&gpu, pid).is_some());
    }
}

#[test]
fn rule_4_and_s2_time_is_zero_while_running_and_the_span_afterwards() {
    let mut gpu = gpu();
    let object = start(&mut gpu, 10, 0);
    let live = host(&gpu, 10).unwrap();
    assert!(live.running);
    assert_eq!((live.time_ms, live.start_us, live.memory_peak_bytes), (0, WALL_US, 1 << 20));
    gpu.close(object, at(7_999));
    let dead = host(&gpu, 10).unwrap();
    assert!(!dead.running);
    assert_eq!(dead.time_ms, 7);
}

#[test]
fn rule_4_and_s19_a_clock_step_during_the_span_changes_the_bill() {
    let mut gpu = gpu();
    let forward = start(&mut gpu, 10, 0);
    let back = start(&mut gpu, 11, 0);
    gpu.close(forward, Moment { wall_us: WALL_US + 60 * SECOND_US, ..at(1_000) });
    assert_eq!(host(&gpu, 10).unwrap().time_ms, 60_000);
    gpu.close(back, Moment { wall_us: WALL_US - 1_000, ..at(1_000) });
    assert_eq!(host(&gpu, 11).unwrap().time_ms, u64::MAX.wrapping_sub(999) / 1_000);
}

#[test]
fn rule_5_and_s4_a_second_span_of_the_pid_replaces_the_first() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5_000);
    live_through(&mut gpu, 10, 10_000, 12_000);
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    let stats = host(&gpu, 10).unwrap();
    assert_eq!((stats.start_us, stats.time_ms), (WALL_US + 10_000, 2));
}

#[test]
fn rule_5_a_span_that_was_replaced_makes_its_pid_the_youngest_dead() {
    let mut gpu = gpu();
    for pid in [10, 11] {
        live_through(&mut gpu, pid, 0, 5);
    }
    live_through(&mut gpu, 10, 10, 15);
    assert_eq!(gpu.accounting_pids(View::Host), [11, 10]);
}

#[test]
fn rule_6_and_s3_the_129th_death_evicts_the_oldest_silently() {
    let mut gpu = gpu();
    for pid in 1..=128 {
        live_through(&mut gpu, pid, u64::from(pid), u64::from(pid) + 1);
    }
    assert_eq!(gpu.accounting_pids(View::Host), (1..=128).collect::<Vec<_>>());
    live_through(&mut gpu, 129, 500, 501);
    assert_eq!(gpu.accounting_pids(View::Host), (2..=129).collect::<Vec<_>>());
    assert_eq!(host(&gpu, 1), None);
}

#[test]
fn rule_6_the_3873rd_live_entry_evicts_the_oldest_and_that_process_is_never_billed() {
    let mut gpu = gpu();
    let first = start(&mut gpu, 1, 0);
    for pid in 2..=3_872 {
        start(&mut gpu, pid, 1);
    }
    assert!(host(&gpu, 1).is_some());
    assert!(gpu.take_ended().is_empty());
    start(&mut gpu, 3_873, 2);
    assert_eq!(host(&gpu, 1), None);
    assert_eq!(gpu.accounting_pids(View::Host).len(), LIVE_ENTRIES_MAX);
    let lost = gpu.take_ended();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].pid, lost[0].loss), (1, Some(Loss::LiveEvicted)));
    gpu.close(first, at(SECOND_US));
    assert_eq!(host(&gpu, 1), None);
    assert!(gpu.take_ended().is_empty(), "its loss was told already");
}

#[test]
fn rule_7_and_s4_a_dead_entry_masks_the_live_one_of_its_pid_which_is_listed_twice() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5_000);
    let second = start(&mut gpu, 10, 9_000);
    assert_eq!(gpu.accounting_pids(View::Host), [10, 10]);
    let told = host(&gpu, 10).unwrap();
    assert!(!told.running);
    assert_eq!(told.start_us, WALL_US);
    gpu.close(second, at(19_000));
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    assert_eq!(host(&gpu, 10).unwrap().start_us, WALL_US + 9_000);
}

#[test]
fn rule_7_the_list_has_the_dead_oldest_first_and_then_the_living() {
    let mut gpu = gpu();
    start(&mut gpu, 10, 0);
    let short = start(&mut gpu, 11, 1);
    let long = start(&mut gpu, 12, 2);
    gpu.close(long, at(5));
    gpu.close(short, at(9));
    assert_eq!(gpu.accounting_pids(View::Host), [12, 11, 10]);
}

#[test]
fn rule_8_memory_is_the_high_water_mark_of_all_objects_of_the_process() {
    let mut gpu = gpu();
    let (first, _) = gpu.open(10, at(0));
    let (second, _) = gpu.open(10, at(0));
    gpu.set_use(first, job(100), at(1));
    gpu.set_use(second, job(50), at(2));
    gpu.set_use(first, job(10), at(3));
    assert_eq!(host(&gpu, 10).unwrap().memory_peak_bytes, 150);
    assert_eq!(gpu.holders(), [Holder { pid: 10, memory_bytes: 60 }]);
    assert_eq!(gpu.memory_used_bytes(), 60);
}

#[test]
fn rule_8_work_between_two_ticks_has_no_samples_and_reads_zero() {
    let mut gpu = gpu();
    let (object, _) = gpu.open(10, at(100_000));
    gpu.set_use(object, busy(100), at(100_000));
    gpu.close(object, at(780_000));
    let stats = host(&gpu, 10).unwrap();
    assert_eq!((stats.samples, stats.gpu_util_sum, stats.gpu_percent), (0, 0, 0));
    assert_eq!(stats.time_ms, 680);
}

#[test]
fn rule_8_and_s2_a_live_entry_shows_its_utilization() {
    let mut gpu = gpu();
    let (object, _) = gpu.open(10, at(0));
    gpu.set_use(object, busy(77), at(0));
    gpu.advance(at(10 * SECOND_US));
    let stats = host(&gpu, 10).unwrap();
    assert!(stats.running);
    // The sample interval under way at the start began before it.
    assert!(stats.gpu_percent == 76 || stats.gpu_percent == 77, "{stats:?}");
    // 7.19 samples a second, of the ten seconds that were ticked.
    assert!((71..=73).contains(&stats.samples), "{stats:?}");
}

#[test]
fn s12_utilization_is_floored_and_the_sums_are_not() {
    let mut gpu = gpu();
    let (object, _) = gpu.open(10, at(0));
    // Busy for one sample interval in a long life.
    gpu.set_use(object, busy(100), at(0));
    gpu.set_use(object, busy(0), at(SAMPLE_US));
    gpu.advance(at(60 * SECOND_US));
    let stats = host(&gpu, 10).unwrap();
    assert_eq!(stats.gpu_percent, 0);
    assert!(stats.gpu_util_sum > 0, "{stats:?}");
    assert!(stats.samples > 400, "{stats:?}");
}

#[test]
fn a_sample_names_one_process_and_the_denominator_counts_all_samples() {
    let mut gpu = gpu();
    for pid in [10, 11] {
        let (object, _) = gpu.open(pid, at(0));
        gpu.set_use(object, busy(100), at(0));
    }
    gpu.advance(at(100 * SECOND_US));
    let (one, other) = (host(&gpu, 10).unwrap(), host(&gpu, 11).unwrap());
    assert_eq!(one.samples, other.samples);
    // Each sample's whole share goes to one of the two.
    let expected = one.samples * 10_000;
    let sum = one.gpu_util_sum + other.gpu_util_sum;
    assert!(sum <= expected && sum + 10_000 >= expected, "{one:?} {other:?}");
    assert!(one.gpu_percent.abs_diff(50) < 20, "{one:?}");
}

#[test]
fn the_ring_keeps_72_samples_of_139_ms() {
    let mut gpu = gpu();
    let (object, _) = gpu.open(10, at(0));
    gpu.set_use(object, busy(40), at(0));
    let samples = gpu.samples_since(0, at(30 * SECOND_US));
    assert_eq!(samples.len(), RING_SAMPLES);
    for pair in samples.windows(2) {
        assert_eq!(pair[1].wall_us - pair[0].wall_us, SAMPLE_US);
        assert_eq!(pair[1].gpu_hundredths, 4_000);
    }
    let since = samples[69].wall_us;
    assert_eq!(gpu.samples_since(since, at(30 * SECOND_US)).len(), 2);
}

#[test]
fn s21_process_samples_average_over_all_samples_and_are_empty_when_idle() {
    let mut gpu = gpu();
    assert!(gpu.process_samples(0, at(SECOND_US)).is_empty());
    let (object, _) = gpu.open(10, at(SECOND_US));
    gpu.set_use(object, busy(60), at(SECOND_US));
    let rows = gpu.process_samples(0, at(20 * SECOND_US));
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].pid, rows[0].gpu_percent, rows[0].memory_percent), (10, 60, 30));
    gpu.set_use(object, busy(0), at(20 * SECOND_US));
    let later = at(21 * SECOND_US);
    assert!(gpu.process_samples(later.wall_us - SECOND_US / 2, later).is_empty());
}

#[test]
fn rule_9_mode_off_throws_live_entries_away_for_good_and_keeps_the_dead() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5);
    let object = start(&mut gpu, 11, 10);
    gpu.take_ended();
    gpu.set_accounting(false, at(20)).unwrap();
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    let lost = gpu.take_ended();
    assert_eq!((lost[0].pid, lost[0].loss, lost[0].billable), (11, Some(Loss::ModeOff), true));
    gpu.set_accounting(true, at(21)).unwrap();
    gpu.close(object, at(30));
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
}

#[test]
fn rule_10_clear_throws_the_dead_away_and_keeps_the_living() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5);
    start(&mut gpu, 11, 10);
    gpu.clear();
    assert_eq!(gpu.accounting_pids(View::Host), [11]);
}

#[test]
fn rule_11_and_s8_teardown_switches_off_and_old_dead_rows_come_back() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5_000);
    start(&mut gpu, 11, 10);
    gpu.teardown(at(20));
    assert!(!gpu.accounting_mode());
    gpu.set_accounting(true, at(30)).unwrap();
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    assert_eq!(host(&gpu, 10).unwrap().time_ms, 5);
}

#[test]
fn rule_12_and_s7_a_process_older_than_accounting_has_no_entry() {
    let mut gpu = Gpu::new(&Setup { accounting: false, seed: 1 });
    let object = start(&mut gpu, 10, 0);
    gpu.set_accounting(true, at(10)).unwrap();
    assert!(gpu.accounting_pids(View::Host).is_empty());
    assert_eq!(gpu.holders().len(), 1, "it is seen to hold the GPU all the same");
    gpu.close(object, at(20));
    assert!(gpu.accounting_pids(View::Host).is_empty());
    assert_eq!(gpu.take_ended()[0].loss, Some(Loss::NoEntry));
}

#[test]
fn rule_12_a_later_object_of_an_older_process_starts_late_and_closes_early() {
    let mut gpu = Gpu::new(&Setup { accounting: false, seed: 1 });
    let old = start(&mut gpu, 10, 0);
    gpu.set_accounting(true, at(10_000)).unwrap();
    let young = start(&mut gpu, 10, 20_000);
    assert_eq!(host(&gpu, 10).unwrap().start_us, WALL_US + 20_000);
    gpu.close(old, at(30_000));
    let stats = host(&gpu, 10).unwrap();
    assert!(!stats.running, "the old object's end drove the count to nothing");
    assert_eq!(stats.time_ms, 10);
    gpu.close(young, at(90_000));
    assert_eq!(host(&gpu, 10).unwrap().time_ms, 10);
}

#[test]
fn rule_13_and_s9_under_mig_accounting_is_off_and_cannot_be_set() {
    let mut gpu = gpu();
    start(&mut gpu, 10, 0);
    gpu.set_mig(true, at(5));
    assert!(!gpu.accounting_mode());
    assert!(gpu.accounting_pids(View::Host).is_empty());
    assert_eq!(gpu.set_accounting(true, at(6)), Err(Refusal));
    gpu.set_mig(false, at(7));
    assert!(!gpu.accounting_mode(), "it does not come back by itself");
    assert_eq!(gpu.set_accounting(true, at(8)), Ok(()));
}

#[test]
fn rule_14_and_s6_a_container_sees_only_live_entries() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5);
    start(&mut gpu, 11, 10);
    assert_eq!(gpu.accounting_pids(View::Container), [11]);
    assert_eq!(gpu.accounting_stats(10, View::Container), None);
    assert!(gpu.accounting_stats(11, View::Container).is_some());
}

#[test]
fn rule_15_each_gpu_keeps_its_own_stores() {
    let (mut first, mut second) = (gpu(), gpu());
    live_through(&mut first, 10, 0, 5_000);
    live_through(&mut second, 10, 1_000, 3_000);
    assert_eq!(host(&first, 10).unwrap().time_ms, 5);
    assert_eq!(host(&second, 10).unwrap().time_ms, 2);
}

#[test]
fn rule_16_a_vgpu_host_is_always_on_and_cannot_be_set() {
    let mut gpu = Gpu::new(&Setup { accounting: false, seed: 1 });
    gpu.set_vgpu_host(true);
    assert!(gpu.accounting_mode());
    assert_eq!(gpu.set_accounting(false, at(0)), Err(Refusal));
}

#[test]
fn rules_18_and_19_a_new_process_of_the_pid_joins_the_entry_that_a_duplicate_kept_live() {
    let mut gpu = gpu();
    let inherited = start(&mut gpu, 10, 0);
    let (_, opened) = gpu.open(10, at(50_000));
    assert_eq!(opened, Opened::Joined);
    assert_eq!(gpu.accounting_pids(View::Host), [10]);
    gpu.close(inherited, at(60_000));
    let stats = host(&gpu, 10).unwrap();
    assert!(stats.running);
    assert_eq!(stats.start_us, WALL_US);
}

#[test]
fn s11_the_lists_grow_and_shrink_by_entries_that_no_real_pid_can_have() {
    let mut gpu = gpu();
    live_through(&mut gpu, 10, 0, 5);
    gpu.add_made_up_live(3, at(10));
    gpu.add_made_up_dead(2, at(10));
    let pids = gpu.accounting_pids(View::Host);
    assert_eq!(pids.len(), 6);
    assert!(pids.iter().filter(|&&pid| pid > 4_194_304).count() == 5);
    assert_eq!(gpu.holders().len(), 3);
    gpu.shrink(4);
    assert_eq!(gpu.accounting_pids(View::Host).len(), 2, "the dead first, then made-up live ones");
    gpu.add_made_up_dead(128, at(20));
    assert!(!gpu.accounting_pids(View::Host).contains(&10));
}
