//! Which moments of a lifetime are in doubt after a loss of events, and what ends the doubt.
//!
//! The rule: from the loss's beginning (or the birth, if later) no image is certain until an exec
//! event after the loss, the end, or a look at procfs that began after it. If that look shows the
//! argv from before, nothing was missed and the doubt is lifted; if not, the new image counts from
//! the loss's end, since every exec after it was received.
//!
//! A look says what was borne when it was read, and back from there only as far as no exec was lost.
//! Of a process whose birth was lost, and of a look that events were lost before the end of, it says
//! nothing about the time before.

use std::sync::Arc;

use super::{Confirmed, IMAGE_GAPS_MAX, Look, Record, Seed, Window, may_show, still_bears};
use crate::identity::{Basis, Image, ImageContent, ImageGap, User};
use crate::unit::BootNs;
use crate::unknown::NamelessReason;

impl Record {
    /// Events were lost in `[from, to]`, an exec of this process perhaps among them. Returns from
    /// when on the images are in doubt that were not before.
    pub(in super::super) fn doubt(&mut self, from: BootNs, to: BootNs) -> Option<BootNs> {
        let from = from.max(self.life.key.start);
        if from > to || self.life.ended.is_some_and(|ended| ended.at < from) {
            return None;
        }
        self.lost_from = Some(self.lost_from.map_or(from, |lost| lost.min(from)));
        let taken_back = self.take_back_looks(from, to);
        if taken_back.is_none() && self.is_doubted(from, to) {
            return None;
        }
        self.open_doubt(taken_back.map_or(from, |first| first.min(from)), to)
    }

    /// It was first found by a look that ended at `found_by`. Where events were lost until
    /// `lost_to`, that may be true of its birth too, and of an exec between the two.
    pub(in super::super) fn found(&mut self, found_by: BootNs, lost_to: Option<BootNs>) {
        self.found_by = Some(found_by);
        if let Some(to) = lost_to {
            self.doubt(self.life.key.start, to.max(self.life.key.start));
        }
    }

    /// Whether the look it was found by was over before `birth`: it showed another holder of the pid.
    pub(in super::super) fn was_found_before(&self, birth: BootNs) -> bool {
        self.found_by.is_some_and(|found| found < birth)
    }

    /// It was born at a moment when its parent's image was in doubt; of its own events nothing was
    /// lost.
    pub(in super::super) fn doubt_inherited(&mut self, to: BootNs) -> Option<BootNs> {
        let from = self.life.key.start;
        if self.is_doubted(from, to) { None } else { self.open_doubt(from, to) }
    }

    /// It was forked by nobody knows whom: the image it was born with is in doubt like one after a
    /// loss. Says whether that is news.
    pub(in super::super) fn doubt_first_image(&mut self) -> bool {
        let news = !self.forker_unread && self.forked.is_none();
        self.forker_unread = true;
        if news {
            self.open_doubt(self.life.key.start, self.life.key.start);
        }
        news
    }

    /// Whether what it bore at `at` is in doubt over lost events.
    pub(in super::super) fn is_in_doubt_at(&self, at: BootNs) -> bool {
        let lost = |gap: &ImageGap| gap.reason == NamelessReason::EventLost && gap.contains(at);
        self.life.image_gaps.iter().any(lost)
    }

    /// Whether all of `[from, to]` is in a doubt that ended already.
    fn is_doubted(&self, from: BootNs, to: BootNs) -> bool {
        let covers = |gap: &ImageGap| {
            gap.reason == NamelessReason::EventLost
                && gap.from <= from
                && gap.to.is_some_and(|end| end >= to)
        };
        self.life.image_gaps.iter().any(covers)
    }

    fn open_doubt(&mut self, from: BootNs, to: BootNs) -> Option<BootNs> {
        if let Some((first, last)) = self.open_gap {
            self.open_gap = Some((first.min(from), last.max(to)));
            let gap = self.life.image_gaps.iter_mut().find(|gap| gap.to.is_none())?;
            let news = from < gap.from;
            gap.from = gap.from.min(from);
            return news.then_some(from);
        }
        self.push_gap(ImageGap { from, to: None, reason: NamelessReason::EventLost });
        self.open_gap = Some((from, to));
        let renewed =
            self.life.images.iter().find(|image| image.basis == Basis::Exec && image.since >= to);
        if let Some(certain) = renewed.map(|image| image.since) {
            self.close_gap(certain);
        } else if let Some(ended) = self.life.ended {
            self.close_gap(ended.at.plus_ns(1));
        }
        Some(from)
    }

    /// Takes back what was read while or after events were lost in `[lost, to]`, as far as it was told
    /// of a time before the loss's end: an exec among the lost may have come before the reading.
    /// Returns from when on images were taken back.
    fn take_back_looks(&mut self, lost: BootNs, to: BootNs) -> Option<BootNs> {
        let start = self.life.key.start;
        let mut sinces: Vec<BootNs> = Vec::new();
        if self.seed.as_ref().is_some_and(|seed| lost <= seed.window.ended) {
            self.seed = None;
            sinces.push(start);
        }
        self.looks.retain(|(since, window)| {
            let stays = window.ended < lost || to < *since;
            if !stays {
                sinces.push(*since);
            }
            stays
        });
        let mut first: Option<BootNs> = None;
        let late = |known: &Confirmed| lost <= known.window.ended && known.from <= to;
        if let Some(confirmed) = self.confirmed.filter(late) {
            self.confirmed = None;
            first = Some(confirmed.from);
        }
        self.life.images.retain(|image| {
            let goes = image.basis == Basis::Procfs && sinces.contains(&image.since);
            if goes {
                first = Some(first.map_or(image.since, |known| known.min(image.since)));
            }
            !goes
        });
        first
    }

    /// What was read only after its end was read of the next holder of its pid in the same tick: the
    /// time back to the loss is in doubt until the end. Returns from when on.
    pub(in super::super) fn take_back_looks_after_end(&mut self) -> Option<BootNs> {
        let end = self.life.ended?.at;
        let mut first: Option<BootNs> = None;
        for (since, _) in self.looks.extract_if(.., |(_, window)| end < window.began) {
            let own = |image: &Image| image.basis == Basis::Procfs && image.since == since;
            self.life.images.retain(|image| !own(image));
            if let Some(gap) = self.life.image_gaps.iter_mut().find(|gap| gap.to == Some(since)) {
                gap.to = Some(end.plus_ns(1).max(since));
            }
            first = Some(first.map_or(since, |known| known.min(since)));
        }
        if let Some(confirmed) = self.confirmed.filter(|known| end < known.window.began) {
            self.confirmed = None;
            let (from, reason) = (confirmed.from, NamelessReason::EventLost);
            self.push_gap(ImageGap { from, to: Some(end.plus_ns(1).max(from)), reason });
            first = Some(first.map_or(from, |known| known.min(from)));
        }
        first
    }

    /// What was read after `exec`, or may have been, is that exec's own: the time before it, back to
    /// the loss that made procfs be looked at, is in doubt again. Returns from when on.
    pub(super) fn doubt_looks_after(&mut self, exec: &Image) -> Option<BootNs> {
        let shown = |window: &Window, content: &ImageContent| {
            exec.since <= window.began
                || exec.since <= window.ended && may_show(&exec.content, content)
        };
        let mut doubted: Option<BootNs> = None;
        for (since, window) in self.looks.clone() {
            let own = |image: &Image| image.basis == Basis::Procfs && image.since == since;
            let Some(place) = self.life.images.iter().position(own) else { continue };
            let stale = |image: &Image| since < exec.since && shown(&window, &image.content);
            if self.life.images.get(place).is_some_and(stale) {
                self.life.images.remove(place);
                self.looks.retain(|(other, _)| *other != since);
                if let Some(gap) = self.life.image_gaps.iter_mut().find(|gap| gap.to == Some(since))
                {
                    gap.to = Some(exec.since);
                }
                doubted = Some(doubted.map_or(since, |first| first.min(since)));
            }
        }
        let unsettled = self.unconfirm(exec, shown);
        [doubted, unsettled].into_iter().flatten().min()
    }

    /// An exec came between a loss and the look that seemed to confirm the image from before: it is
    /// that exec's image that was seen, or, if the exec fell into the loss and is not what was seen,
    /// one that began after it.
    fn unconfirm(
        &mut self,
        exec: &Image,
        shown: impl Fn(&Window, &ImageContent) -> bool,
    ) -> Option<BootNs> {
        let Confirmed { from, to, window } = self.confirmed?;
        let before = |image: &&Image| image.since < exec.since;
        let seen = self.life.images.iter().rev().find(before).cloned()?;
        if exec.since <= from || !shown(&window, &seen.content) {
            return None;
        }
        self.confirmed = None;
        let is_other = exec.since <= to && !may_show(&exec.content, &seen.content);
        let certain = if is_other { to.max(exec.since.plus_ns(1)) } else { exec.since };
        let reason = NamelessReason::EventLost;
        self.push_gap(ImageGap { from, to: Some(certain), reason });
        if is_other {
            self.looks.push((certain, window));
            let place = self.life.images.partition_point(|other| other.since <= certain);
            let image = Image { since: certain, basis: Basis::Procfs, ..seen };
            self.life.images.insert(place, image);
        }
        Some(from)
    }

    pub(super) fn settle_gap(
        &mut self,
        seen: ImageContent,
        user: User,
        window: Window,
        to: BootNs,
    ) -> Look {
        let open = self.life.image_gaps.iter().find(|gap| gap.to.is_none());
        let from = open.map_or(to, |gap| gap.from);
        // A look may be told after one that came later, and after events: what it showed goes before those.
        let before = |image: &&Image| image.since <= to;
        let last = self.life.images.iter().rev().find(before);
        if let Some(last) =
            last.filter(|last| !self.may_have_a_twin() && still_bears(&last.content, &seen))
        {
            // What it was before an exec that did come through cannot be told.
            let renewed = Some(last.since).filter(|since| *since > from);
            match renewed {
                Some(since) => self.close_gap(since),
                None => self.lift_gap(),
            }
            self.confirmed = Some(Confirmed { from: renewed.unwrap_or(from), to, window });
            return Look::Confirmed;
        }
        let to = to.max(self.life.key.start.plus_ns(1));
        self.close_gap(to);
        self.looks.push((to, window));
        let place = self.life.images.partition_point(|image| image.since <= to);
        let (basis, content) = (Basis::Procfs, Arc::new(seen));
        self.life.images.insert(place, Image { since: to, basis, content, user });
        self.trim();
        let images = &self.life.images;
        self.looks.retain(|(since, _)| images.iter().any(|image| image.since == *since));
        Look::Changed
    }

    /// Whether its end and the birth of another holder of its pid may have been lost within the tick
    /// of its own birth: procfs would show that one under the same start.
    fn may_have_a_twin(&self) -> bool {
        let start = self.life.key.start;
        let tick_end = start.ticks().saturating_add(1).saturating_mul(BootNs::PER_TICK);
        self.life.start_is_exact && self.lost_from.is_some_and(|lost| lost.0 < tick_end)
    }

    /// The exact birth came to light: a loss that was over by then took nothing of this lifetime, and
    /// what the look after it showed counts from the birth.
    pub(super) fn forget_loss_before_birth(&mut self) {
        let start = self.life.key.start;
        let early = |(since, _): &(BootNs, Window)| *since <= start;
        let Some(place) = self.looks.iter().position(early) else { return };
        let (since, window) = self.looks.remove(place);
        let own = |image: &Image| image.basis == Basis::Procfs && image.since == since;
        let Some(place) = self.life.images.iter().position(own) else { return };
        let Image { content, user, .. } = self.life.images.remove(place);
        self.life.image_gaps.retain(|gap| gap.to.is_none_or(|to| to > start));
        self.lost_from = self.lost_from.filter(|lost| *lost > start);
        self.seed = Some(Box::new(Seed { content, user, window }));
        self.place_seed();
    }

    pub(super) fn close_gap(&mut self, to: BootNs) {
        self.open_gap = None;
        if let Some(gap) = self.life.image_gaps.iter_mut().find(|gap| gap.to.is_none()) {
            gap.to = Some(to.max(gap.from));
        }
    }

    fn lift_gap(&mut self) {
        self.open_gap = None;
        self.life.image_gaps.retain(|gap| gap.to.is_some());
    }

    fn push_gap(&mut self, gap: ImageGap) {
        let gaps = &mut self.life.image_gaps;
        gaps.push(gap);
        if gaps.len() <= IMAGE_GAPS_MAX {
            return;
        }
        // The cut stays what it is; of the others the two oldest become one.
        let mut lost = (0..gaps.len()).filter(|place| {
            gaps.get(*place).is_some_and(|gap| gap.reason == NamelessReason::EventLost)
        });
        if let (Some(first), Some(second)) = (lost.next(), lost.next()) {
            let merged = gaps.remove(second);
            if let Some(kept) = gaps.get_mut(first) {
                kept.from = kept.from.min(merged.from);
                kept.to = kept.to.max(merged.to);
            }
        }
    }
}
