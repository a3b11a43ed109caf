//! One lifetime and the evidence behind it.
//!
//! Purpose: put what was seen of one process into one order, whatever order it came in.
//! Each method may be called again with the same evidence and then changes nothing.

mod doubt;

use std::sync::Arc;

use gpu_ledger_ebpf::CGROUPS;

use crate::identity::{Basis, Ended, Image, ImageContent, ImageGap, Lifetime, User};
use crate::kernel::{ArgvState, CgroupId, ProcessKey, Subject};
use crate::unit::BootNs;
use crate::unknown::NamelessReason;

/// Images kept of one lifetime. A loader that execs in a chain goes past it; the first image (who
/// started it) and the newest ones are what a row can name.
pub const IMAGES_MAX: usize = 8;

/// Control groups kept of one lifetime: the first and, of each hierarchy, the newest stay. Room for those
/// it was born in and those it was moved to.
const CGROUPS_MAX: usize = 16;

// Past the bound there is always one to forget that the process has left.
const _: () = assert!(CGROUPS_MAX > CGROUPS);

/// Stretches in doubt kept of one lifetime; past it the two oldest become one that covers both.
const IMAGE_GAPS_MAX: usize = 8;

/// From when to when a procfs snapshot was read: a process in it was read somewhere in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) began: BootNs,
    pub(super) ended: BootNs,
}

/// What a look at procfs did to a lifetime whose image was in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// It was not in doubt.
    Certain,
    /// It still bears the image it had before events were lost.
    Confirmed,
    /// It bears another one: an exec was among the lost.
    Changed,
}

/// What procfs showed of a process.
#[derive(Clone, Debug)]
struct Seed {
    content: Arc<ImageContent>,
    user: User,
    window: Window,
}

/// When a process is taken to be in the control groups that it is to work in. Runtimes, schedulers and service managers
/// put what they start into its groups before its last exec; a desktop does so after it (gnome-shell has systemd make
/// a scope of a program that runs), and mostly before that one opens a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stand {
    /// Found by a look at procfs, whatever came before.
    Found,
    /// At this exec.
    Exec(BootNs),
    /// When it opened a device.
    Touch(BootNs),
}

/// A doubt that a look ended because it showed the image that was known.
#[derive(Clone, Copy, Debug)]
struct Confirmed {
    /// From when on that image was taken for certain.
    from: BootNs,
    /// The end of the loss.
    to: BootNs,
    window: Window,
}

/// The image of that moment was cut off under `IMAGES_MAX`.
#[derive(Debug)]
pub(super) struct Cut;

/// A lifetime with what decides between pieces of evidence.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) life: Lifetime,
    /// The nearest retained ancestor: `life.parent`, or one above it where that was cut out.
    pub(super) link: Option<ProcessKey>,
    /// When the parent was seen to be the parent: the fork itself counts as before all else, since
    /// an exec or exit event names whoever the process was handed to since.
    parent_seen: Option<BootNs>,
    /// The child's ids in its fork event, which says that the first image is the parent's.
    pub(super) forked: Option<User>,
    /// A fork event came that could not say who forked it.
    forker_unread: bool,
    /// What the earliest look at procfs showed, kept also where kernel events say more: what they
    /// say may yet be taken back.
    seed: Option<Box<Seed>>,
    /// When the procfs images behind the first one were read, by the moment they count from.
    looks: Vec<(BootNs, Window)>,
    /// The newest look after a loss that showed the image from before.
    confirmed: Option<Confirmed>,
    /// The end of the look that this lifetime was made from.
    found_by: Option<BootNs>,
    /// The first moment of it in which events were lost.
    lost_from: Option<BootNs>,
    /// The lost-events interval after which the image has not been looked at again.
    open_gap: Option<(BootNs, BootNs)>,
    /// Start of the youngest child seen to be forked: an exec older than it came late.
    pub(super) last_birth: Option<BootNs>,
    /// What `life.cgroups_stood` counts at.
    stood: Option<Stand>,
    /// Never evicted and never forgotten.
    pub(super) pinned: bool,
}

impl Record {
    pub(super) const fn new(key: ProcessKey, start_is_exact: bool) -> Self {
        let life = Lifetime {
            key,
            start_is_exact,
            parent: None,
            images: Vec::new(),
            images_forgotten: 0,
            image_gaps: Vec::new(),
            cgroups: Vec::new(),
            cgroups_stood: 0,
            touched: None,
            ended: None,
        };
        Self {
            life,
            link: None,
            parent_seen: None,
            forked: None,
            forker_unread: false,
            seed: None,
            looks: Vec::new(),
            confirmed: None,
            found_by: None,
            lost_from: None,
            open_gap: None,
            last_birth: None,
            stood: None,
            pinned: false,
        }
    }

    pub(super) const fn is_seeded(&self) -> bool {
        self.seed.is_some()
    }

    /// Bytes of argv and file names that are this lifetime's own (an inherited image is shared).
    pub(super) fn content_bytes(&self) -> usize {
        let own = self.life.images.iter().filter(|image| image.basis != Basis::Fork);
        own.map(|image| image.content.argv.bytes.len() + image.content.filename.len()).sum()
    }

    /// Takes `parent` for the parent if it was seen so earlier than the one known now.
    /// A parent that would be younger than its child is no parent (a reused pid).
    pub(super) fn learn_parent(&mut self, parent: ProcessKey, seen: BootNs) {
        let possible = parent.pid.0 != 0
            && parent.pid != self.life.key.pid
            && parent.start.ticks() <= self.life.key.start.ticks();
        if possible && self.parent_seen.is_none_or(|known| seen < known) {
            self.parent_seen = Some(seen);
            self.life.parent = Some(parent);
            self.link = Some(parent);
        }
    }

    /// What every event says of its subject, as far as it could be read.
    pub(super) fn learn_subject(&mut self, subject: &Subject, parent_seen: BootNs) {
        if let Some(parent) = subject.parent {
            self.learn_parent(parent, parent_seen);
        }
        if let Some(cgroups) = &subject.cgroups {
            self.learn_cgroups(cgroups);
        }
    }

    pub(super) fn learn_cgroups(&mut self, cgroups: &[CgroupId]) {
        for cgroup in cgroups {
            if !self.life.cgroups.contains(cgroup) {
                self.life.cgroups.push(*cgroup);
                self.forget_left_cgroup();
            }
        }
    }

    /// Keeps the bound: forgets the oldest group that was left for another one of its hierarchy.
    fn forget_left_cgroup(&mut self) {
        let cgroups = &mut self.life.cgroups;
        if cgroups.len() <= CGROUPS_MAX {
            return;
        }
        let is_left = |place: &usize| {
            let mut later = cgroups.iter().skip(*place);
            later.next().is_some_and(|one| later.any(|other| other.hierarchy == one.hierarchy))
        };
        // Only hierarchies that come and go while a process lives can be more than there is room for.
        let forgotten = (1..cgroups.len()).find(is_left).unwrap_or(1);
        self.remove_cgroup(forgotten);
    }

    fn remove_cgroup(&mut self, place: usize) {
        self.life.cgroups.remove(place);
        if place < self.life.cgroups_stood {
            self.life.cgroups_stood = self.life.cgroups_stood.saturating_sub(1);
        }
    }

    /// These are the ones that it is in now, also where it had left them before.
    pub(super) fn is_last_in(&mut self, cgroups: &[CgroupId]) {
        for cgroup in cgroups {
            let known = &self.life.cgroups;
            let place = known.iter().position(|one| one == cgroup);
            let left = place.filter(|place| {
                let mut later = known.iter().skip(place.saturating_add(1));
                later.any(|other| other.hierarchy == cgroup.hierarchy)
            });
            if let Some(place) = left {
                self.remove_cgroup(place);
            }
            if left.is_some() || place.is_none() {
                self.life.cgroups.push(*cgroup);
                self.forget_left_cgroup();
            }
        }
    }

    /// It is in these groups at a moment from which on a move counts as one, unless a better one is known.
    pub(super) fn stand_in(&mut self, cgroups: &[CgroupId], stand: Stand) {
        let is_better = match (self.stood, stand) {
            (None, _) | (Some(Stand::Found), Stand::Exec(_) | Stand::Touch(_)) => true,
            (Some(Stand::Exec(known) | Stand::Touch(known)), Stand::Exec(at)) => known < at,
            (Some(Stand::Exec(known)), Stand::Touch(at)) => known <= at,
            (Some(Stand::Touch(_)), Stand::Touch(_)) | (Some(_), Stand::Found) => false,
        };
        if is_better {
            self.is_last_in(cgroups);
            self.stood = Some(stand);
            self.life.cgroups_stood = self.life.cgroups.len();
        }
    }

    /// The image of an exec event. Returns from when on the images are news.
    pub(super) fn put_exec(&mut self, image: Image) -> BootNs {
        let since = image.since;
        let known = |seen: &Image| seen.since == since && seen.basis == Basis::Exec;
        if self.life.images.iter().any(known) || self.was_cut_at(since) {
            return BootNs(u64::MAX);
        }
        let doubted = self.doubt_looks_after(&image);
        let place = self.life.images.partition_point(|other| other.since <= since);
        self.life.images.insert(place, image);
        if self.open_gap.is_some_and(|(_, to)| since >= to) {
            self.close_gap(since);
        }
        let begins_anew = self.place_seed();
        self.trim();
        if begins_anew { self.life.key.start } else { doubted.unwrap_or(since) }
    }

    /// The image inherited over fork; replaces what procfs said of the same beginning, and an
    /// earlier answer to the same question (the parent's own history may come late). `None` takes
    /// the earlier answer back. Says whether anything is new.
    pub(super) fn put_inherited(&mut self, content: Option<Arc<ImageContent>>, user: User) -> bool {
        let since = self.life.key.start;
        let before = self.life.images.iter().find(|image| image.basis == Basis::Fork);
        if before.map(|image| &image.content) == content.as_ref() {
            return false;
        }
        self.life.images.retain(|image| image.basis != Basis::Fork);
        if let Some(content) = content {
            self.life.images.insert(0, Image { since, basis: Basis::Fork, content, user });
        }
        self.place_seed();
        self.trim();
        true
    }

    /// What procfs showed of it in `window`. Where kernel events say the same, they win.
    pub(super) fn put_seen(&mut self, content: ImageContent, user: User, window: Window) -> Look {
        if let Some((_, to)) = self.open_gap
            && to <= window.began
        {
            return self.settle_gap(content, user, window, to);
        }
        // An exec that was lost may have come before the reading or after it: it proves nothing.
        if self.lost_from.is_some_and(|lost| lost <= window.ended) {
            return Look::Certain;
        }
        // Of two readings the earlier one says more about the beginning.
        if self.seed.as_ref().is_none_or(|known| window.ended <= known.window.began) {
            let content = Arc::new(content);
            self.seed = Some(Box::new(Seed { content, user, window }));
            self.place_seed();
            self.trim();
        }
        Look::Certain
    }

    /// Puts the seed where it belongs: at the beginning, if no kernel event says what that was and no
    /// exec came between the birth and the reading. Says whether the beginning has changed.
    fn place_seed(&mut self) -> bool {
        let start = self.life.key.start;
        let stands = |image: &Image| image.basis == Basis::Procfs && image.since == start;
        let before = self.life.images.first().filter(|first| stands(first)).cloned();
        self.life.images.retain(|image| !stands(image));
        if let Some(seed) = &self.seed {
            let explained = self.life.images.iter().any(|image| match image.basis {
                Basis::Fork | Basis::Journal => true,
                Basis::Procfs => false,
                Basis::Exec => {
                    image.since <= seed.window.began
                        || image.since <= seed.window.ended
                            && may_show(&image.content, &seed.content)
                }
            });
            // Read after this one's end, it was of another holder of the pid in the same tick.
            let later = self.life.ended.is_some_and(|ended| ended.at < seed.window.began);
            if !explained && !later {
                let content = Arc::clone(&seed.content);
                let image = Image { since: start, basis: Basis::Procfs, content, user: seed.user };
                self.life.images.insert(0, image);
            }
        }
        self.life.images.first().filter(|first| stands(first)) != before.as_ref()
    }

    /// The content that a child born at `at` shares, if this process had any; `Err` where it was
    /// cut off, so that nothing new can be said. Doubt over lost events is the child's too
    /// (see `is_in_doubt_at`).
    pub(super) fn content_at(&self, at: BootNs) -> Result<Option<Arc<ImageContent>>, Cut> {
        if self.was_cut_at(at) {
            return Err(Cut);
        }
        let image = self.life.images.iter().rev().find(|image| image.since <= at);
        Ok(image.map(|image| Arc::clone(&image.content)))
    }

    /// Takes an end; says whether it is the first news of one. Of several exits the earliest counts,
    /// and an exit that was seen counts before one that was inferred.
    pub(super) fn end(&mut self, end: Ended) -> bool {
        let news = self.life.ended.is_none();
        let better = self.life.ended.is_none_or(|known| match (known.is_seen, end.is_seen) {
            (false, true) => true,
            (true, false) => false,
            _ => end.at < known.at,
        });
        if better {
            self.life.ended = Some(end);
            self.place_seed();
        }
        if self.open_gap.is_some() {
            self.close_gap(end.at.plus_ns(1));
        }
        news
    }

    pub(super) fn touch(&mut self, at: BootNs) -> bool {
        let news = self.life.touched.is_none();
        self.life.touched = Some(self.life.touched.map_or(at, |known| known.min(at)));
        news
    }

    /// Gives it the exact start where procfs had only the tick.
    pub(super) fn make_exact(&mut self, key: ProcessKey) {
        let floored = self.life.key.start;
        for image in &mut self.life.images {
            if image.since == floored {
                image.since = key.start;
            }
        }
        self.life.key = key;
        self.life.start_is_exact = true;
        self.forget_loss_before_birth();
    }

    fn was_cut_at(&self, at: BootNs) -> bool {
        self.cut().is_some_and(|gap| gap.contains(at))
    }

    fn cut(&self) -> Option<&ImageGap> {
        self.life.image_gaps.iter().find(|gap| gap.reason == NamelessReason::IdentityEvicted)
    }

    /// Cuts the oldest image behind the first one until the bound holds, and says where it was.
    fn trim(&mut self) {
        while self.life.images.len() > IMAGES_MAX {
            let from = self.life.images.remove(1).since;
            let to = self.life.images.get(1).map(|next| next.since);
            self.life.images_forgotten = self.life.images_forgotten.saturating_add(1);
            let reason = NamelessReason::IdentityEvicted;
            match self.life.image_gaps.iter_mut().find(|gap| gap.reason == reason) {
                Some(gap) => {
                    gap.from = gap.from.min(from);
                    gap.to = gap.to.max(to);
                }
                None => self.life.image_gaps.insert(0, ImageGap { from, to, reason }),
            }
        }
    }
}

fn same_argv(one: &ImageContent, other: &ImageContent) -> bool {
    one.argv.true_length.is_some()
        && one.argv.true_length == other.argv.true_length
        && one.argv.bytes == other.argv.bytes
}

/// Whether a look that showed `seen` may have shown the image of this exec, which came while procfs
/// was read. An argv that could not be read may have been any.
fn may_show(exec: &ImageContent, seen: &ImageContent) -> bool {
    let is_unread = matches!(exec.argv.state, ArgvState::Shed | ArgvState::Unreadable);
    still_bears(exec, seen) || is_unread && (exec.exe.is_none() || seen.exe.is_none())
}

/// Whether a process that was last known to bear `known` and now shows `seen` in procfs may be
/// taken not to have exec'ed: its arguments are the same, or it only rewrote its title in place.
/// Executables alone are no proof: the kernel's device number and `stat`'s differ on overlayfs.
fn still_bears(known: &ImageContent, seen: &ImageContent) -> bool {
    let same_file = match (known.exe, seen.exe) {
        (Some(known), Some(seen)) => known == seen,
        _ => true,
    };
    match known.argv.state {
        ArgvState::Whole | ArgvState::Truncated => {
            same_argv(known, seen) || same_file && crate::identity::program::is_title(seen)
        }
        ArgvState::Shed | ArgvState::Unreadable => known.exe.is_some() && known.exe == seen.exe,
    }
}
