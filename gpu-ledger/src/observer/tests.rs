//! The driver given back and taken up again, on the simulated driver.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::release::ReleaseError;
use super::{Observer, Setup};
use crate::accounting::driver::DriverOptions;
use crate::clock::Clock;
use crate::host::{GpuRows, HostSettings, News, Resumed};
use crate::support::opened::options;
use crate::support::{PATIENCE, Sim, with_simulator};
use crate::unit::GpuUuid;
use crate::unknown::GapCause;

struct Watched {
    observer: Observer,
    news: Vec<News>,
}

impl Watched {
    async fn with(options: DriverOptions) -> Self {
        let setup = Setup {
            clock: Clock::system(),
            host_name: Arc::from("host"),
            probe_arguments: Vec::new(),
            settings: HostSettings::of_daemon(false, false),
            resumed: Resumed::default(),
            naming: None,
        };
        let mut observer = Observer::blind(setup);
        observer.open_driver(options).await.unwrap();
        let mut watched = Self { observer, news: Vec::new() };
        watched.until_read().await;
        watched
    }

    /// Until every GPU that is open was read since now.
    async fn until_read(&mut self) {
        let asked = self.observer.clock().now().boot;
        self.observer.want_reads(true, true);
        let released = self.observer.released().clone();
        self.until("a read of every gpu", |watched| {
            let mut gpus = watched.observer.host().gpus().iter();
            gpus.all(|(uuid, gpu)| released.contains(uuid) || gpu.was_read_after(asked))
        })
        .await;
    }

    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let turns = async {
            while !is_so(self) {
                let wake = self.observer.next().await;
                self.observer.advance(Some(wake)).unwrap();
                self.take_notes();
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, turns).await;
        in_time.unwrap_or_else(|_| panic!("waited in vain: {what}"));
    }

    fn take_notes(&mut self) {
        for note in self.observer.host_mut().take_notes() {
            self.observer.host_mut().acknowledged(note.number);
            self.news.push(note.news);
        }
    }

    fn gpu(&self, place: usize) -> &GpuRows {
        let mut gpus: Vec<&GpuRows> = self.observer.host().gpus().values().collect();
        gpus.sort_by_key(|gpu| gpu.facts.index);
        gpus[place]
    }

    fn settled(&self) -> usize {
        self.news.iter().filter(|news| matches!(news, News::Settled(_))).count()
    }

    fn released(&self) -> BTreeSet<GpuUuid> {
        let gaps = self.news.iter().filter_map(|news| match news {
            News::Gap(gap) if gap.cause == GapCause::Released => gap.gpu.clone(),
            _ => None,
        });
        gaps.collect()
    }
}

fn clients(sim: &Sim) -> String {
    let answer = sim.program("fault").arg("clients").output().unwrap();
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}

fn block_on(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(body);
}

#[test]
fn a_released_driver_has_no_client_left_and_what_ended_meanwhile_is_read_once_it_is_back() {
    let name = "observer::tests::a_released_driver_has_no_client_left_and_what_ended_meanwhile_is_read_once_it_is_back";
    with_simulator(name, &["--gpus", "2"], |sim| {
        block_on(async {
            let mut watched = Watched::with(options(sim.library())).await;
            sim.work("--gpu 0 --ms 5").wait();
            watched.until_read().await;
            assert_eq!(watched.settled(), 1);
            assert_eq!(clients(sim), "1");
            watched.observer.release(None, PATIENCE).await.unwrap();
            assert_eq!(clients(sim), "0");
            sim.work("--gpu 0 --ms 5").wait();
            watched.observer.advance(None).unwrap();
            watched.take_notes();
            assert_eq!(watched.settled(), 1, "nobody reads");
            watched.observer.regain(&BTreeSet::new(), PATIENCE).await.unwrap();
            assert_eq!(clients(sim), "1");
            watched.until_read().await;
            assert_eq!(watched.settled(), 2, "the first one is not handed out again");
            assert_eq!(watched.released().len(), 2, "{:?}", watched.news);
        });
    });
}

#[test]
fn one_gpu_is_released_and_the_others_are_read_on() {
    let name = "observer::tests::one_gpu_is_released_and_the_others_are_read_on";
    with_simulator(name, &["--gpus", "2"], |sim| {
        block_on(async {
            let mut watched = Watched::with(options(sim.library())).await;
            let first = watched.gpu(0).facts.uuid.clone();
            watched.observer.release(Some(&first), PATIENCE).await.unwrap();
            sim.work("--gpu 0 --ms 5").wait();
            sim.work("--gpu 1 --ms 5").wait();
            watched.until_read().await;
            assert_eq!(watched.settled(), 1);
            assert!(watched.gpu(0).released().is_some() && watched.gpu(1).released().is_none());
            watched.observer.regain(&BTreeSet::new(), PATIENCE).await.unwrap();
            watched.until_read().await;
            assert_eq!(watched.settled(), 2);
            assert_eq!(watched.released(), BTreeSet::from([first]));
        });
    });
}

#[test]
fn a_call_that_hangs_keeps_the_driver_and_is_named_and_a_second_try_succeeds() {
    let name = "observer::tests::a_call_that_hangs_keeps_the_driver_and_is_named_and_a_second_try_succeeds";
    with_simulator(name, &["--gpus", "1"], |sim| {
        block_on(async {
            let mut watched = Watched::with(options(sim.library())).await;
            sim.fault("hang nvmlDeviceGetAccountingPids");
            watched.observer.want_reads(true, false);
            let flight = |watched: &Watched| {
                let mut workers = watched.observer.driver().unwrap().workers();
                workers.any(|worker| worker.watch().in_flight().is_some())
            };
            let hangs = async {
                while !flight(&watched) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(PATIENCE, hangs).await.expect("a call that hangs");
            let refused = watched.observer.release(None, Duration::from_millis(300)).await;
            let Err(ReleaseError::Hangs(unknown)) = refused else { panic!("{refused:?}") };
            assert_eq!(unknown.call, Some("nvmlDeviceGetAccountingPids"));
            assert_eq!(clients(sim), "1");
            sim.fault("heal");
            watched.observer.release(None, PATIENCE).await.unwrap();
            assert_eq!(clients(sim), "0");
        });
    });
}

#[test]
fn a_driver_that_is_gone_when_it_is_taken_up_again_is_tried_again() {
    let name = "observer::tests::a_driver_that_is_gone_when_it_is_taken_up_again_is_tried_again";
    with_simulator(name, &["--gpus", "1"], |sim| {
        block_on(async {
            let mut watched = Watched::with(options(sim.library())).await;
            sim.work("--gpu 0 --ms 5").wait();
            watched.until_read().await;
            watched.observer.release(None, PATIENCE).await.unwrap();
            sim.fault("driver-not-loaded on");
            let refused = watched.observer.regain(&BTreeSet::new(), PATIENCE).await;
            assert!(matches!(refused, Err(ReleaseError::Unopened(_))), "{refused:?}");
            sim.fault("heal");
            sim.fault("driver-not-loaded off");
            watched.observer.regain(&BTreeSet::new(), PATIENCE).await.unwrap();
            watched.until_read().await;
            assert_eq!(watched.settled(), 1, "what was read before is known still");
            assert_eq!(watched.released().len(), 1);
        });
    });
}

#[test]
fn a_gpu_that_nobody_watches_cannot_be_released() {
    let name = "observer::tests::a_gpu_that_nobody_watches_cannot_be_released";
    with_simulator(name, &["--gpus", "1"], |sim| {
        block_on(async {
            let mut watched = Watched::with(options(sim.library())).await;
            let other = GpuUuid("GPU-00000000-none".into());
            let refused = watched.observer.release(Some(&other), PATIENCE).await;
            assert!(matches!(refused, Err(ReleaseError::NoSuchGpu(_))), "{refused:?}");
            watched.until_read().await;
        });
    });
}
