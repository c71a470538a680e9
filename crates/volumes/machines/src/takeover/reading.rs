//! The reading of the holders' lists: which are needed, how far they have come, and whether they are enough
//! (**EnoughLists**).

use super::TakeOverConfig;
use super::holders::{Holder, Holders};
use crate::lists::{Lists, Part, Source};
use crate::messages::holder::{Entry, Epoch, Listed, PartitionId, Sequence, Stamp};
use crate::registry::Registered;
use crate::rule::Rule;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;
use types::{Broken, Time};

/// The situation that the lists are read in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    /// Everything up to here is home.
    pub(super) mark: Stamp,
    /// The entry that the claim is a change of.
    pub(super) before: &'a Registered,
    /// The holders that are in the registry now.
    pub(super) holders: &'a [PartitionId],
    /// Whether that is of this host's own.
    pub(super) is_own: bool,
}

/// The lists that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// Those of all holders but W - 2.
    AllButSome,
    /// Those of all: there may have been other holders, of which nobody knows.
    All,
    /// That of the owner before, as nobody else counted copies: no other is enough.
    Owner,
}

/// The lists, as far as they have come.
#[derive(Debug)]
pub(super) struct Reading {
    silence: Duration,
    broken: Broken<Rule>,
    pub(super) holders: Holders,
    lists: Lists,
    needed: Needed,
    /// Copies that were asked for, and are none.
    damaged: BTreeSet<(Stamp, Source)>,
    /// The own log, and the epoch that it is of.
    own: Option<(Epoch, Vec<Entry>)>,
    /// Whether that is of the epoch that home's mark is of, and has no damage behind it.
    pub(super) has_own: bool,
    /// When lists that are missing are spoken of.
    pub(super) say_at: Option<Time>,
    /// Everything up to here was home, as the registry and the holders were told.
    home: Stamp,
    accepts_loss: bool,
    /// The lists that were continued without.
    pub(super) given_up: Option<Vec<PartitionId>>,
    /// The holders whose sessions ended in the middle of their lists when loss was accepted, and that were waited for
    /// once more.
    spared: BTreeSet<PartitionId>,
}

/// The outcome of a look at the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Enough {
    /// They are enough, or should be.
    Yes,
    /// These are missing, which should be said.
    Missing(Vec<PartitionId>),
    /// Home went back: it had everything up to here. That should be said.
    Older(Stamp),
    /// It is waited for more.
    Wait,
}

impl Situation<'_> {
    /// Whether the host before was taking over, too, and had all at home: it wrote nothing, as it did not come to say
    /// so.
    fn is_home(&self) -> bool {
        self.before.is_taking && self.mark == Stamp::begin(self.before.epoch)
    }

    /// Whether another host may have had the volume, and has not detached it. Home learns of the epoch of each one that
    /// has.
    fn had_other_owner(&self) -> bool {
        let Registered { owner, is_taking, .. } = *self.before;
        self.mark.epoch > Epoch(0) && owner.is_some() && (!self.is_own || is_taking)
    }
}

impl Reading {
    pub(super) fn new(config: &TakeOverConfig) -> Self {
        Self {
            silence: config.silence,
            broken: config.broken,
            holders: Holders::default(),
            lists: Lists::default(),
            needed: Needed::AllButSome,
            damaged: BTreeSet::new(),
            own: None,
            has_own: false,
            say_at: None,
            home: Stamp::ZERO,
            accepts_loss: false,
            given_up: None,
            spared: BTreeSet::new(),
        }
    }

    /// The host has the whole log of an epoch of its own.
    pub(super) fn own(&mut self, epoch: Epoch, entries: Vec<Entry>) {
        self.own = Some((epoch, entries));
    }

    /// All lists are read again: what was accepted as lost was so for those of before.
    pub(super) fn begin(&mut self, now: Time, situation: Situation<'_>) {
        self.lists = Lists::default();
        (self.accepts_loss, self.given_up) = (false, None);
        self.spared.clear();
        self.say_at = Some(now + self.silence);
        let Situation { mark, before, holders, .. } = situation;
        // One that was made again was not there when its owner came.
        self.home = if before.is_rebuilt { Stamp::ZERO } else { before.written };
        let after = if self.broken.is(Rule::PassHome) { Stamp::ZERO } else { mark };
        self.holders.begin(holders, &before.acknowledged, after);
        let (is_home, own) = (situation.is_home(), self.own.as_ref().filter(|(epoch, _)| *epoch == mark.epoch));
        let is_behind = |it: &(Stamp, Source)| it.1 == Source::Own && it.0 > mark;
        self.has_own = own.is_some() && !self.damaged.iter().any(is_behind);
        if let Some((epoch, own)) = own {
            // A log has nothing any more of what was home: its writes follow each other.
            let first = own.first().map_or(Sequence(0), |first| first.stamp.sequence.before());
            let home = Stamp { sequence: first, ..Stamp::begin(*epoch) };
            self.home = if first > mark.sequence { home.max(self.home) } else { self.home };
            self.lists.add(Source::Own, own, &self.damaged);
        }
        let is_alone = before.copies < 2;
        let lacks_owner = !is_home && !self.has_own && (own.is_some() || situation.had_other_owner()) && is_alone;
        self.needed = match before.is_rebuilt {
            _ if lacks_owner => Needed::Owner,
            true => Needed::All,
            false => Needed::AllButSome,
        };
        if is_home || self.has_own && (is_alone || self.broken.is(Rule::OwnLogIsAList)) {
            self.holders.clear();
        }
    }

    /// Lists that cannot be had are no longer waited for.
    pub(super) fn accept_loss(&mut self) {
        self.accepts_loss = true;
    }

    /// A copy that was asked for is none.
    pub(super) fn damaged(&mut self, stamp: Stamp, source: Source) {
        self.damaged.insert((stamp, source));
    }

    /// A holder whose list had a damaged copy, or lacked acknowledged writes, is connected again. Its directory may
    /// be another one, so its list is read again.
    pub(super) fn mend(&mut self, partition: PartitionId, mark: Stamp) {
        let of_it = |it: &(Stamp, Source)| it.1 == Source::Holder(partition);
        let has_gone_back = self.holders.find(partition).is_some_and(|it| it.has_gone_back());
        if has_gone_back || self.damaged.iter().any(of_it) {
            self.damaged.retain(|it| !of_it(it));
            self.holders.find(partition).into_iter().for_each(|it| it.list_again(mark));
        }
    }

    /// The session with a holder has ended in the middle of its list. It is waited for once more, although loss was
    /// accepted: that was of a holder that did not answer, and this one does.
    pub(super) fn spare(&mut self, now: Time, partition: PartitionId) {
        if self.accepts_loss && self.spared.insert(partition) {
            (self.accepts_loss, self.say_at) = (false, Some(now + self.silence));
        }
    }

    /// A part of a list has come. Returns whether the next one should be asked for.
    pub(super) fn add(&mut self, partition: PartitionId, listed: &Listed) -> bool {
        let Some(holder) = self.holders.find(partition).filter(|it| it.is_next(listed)) else { return false };
        self.home = listed.home.max(self.home);
        if !self.lists.add(Source::Holder(partition), &listed.copies, &self.damaged) {
            return false;
        }
        holder.list(listed);
        !holder.is_listed
    }

    /// Whether the lists are enough for a volume of this many copies.
    pub(super) fn look(&mut self, now: Time, copies: u8, mark: Stamp) -> Enough {
        let is_older = self.home > mark && !self.broken.is(Rule::HomeHasFreed);
        match self.missing(copies, mark) {
            None if is_older && !self.accepts_loss => {
                if self.say_at.take().is_some() {
                    Enough::Older(self.home)
                } else {
                    Enough::Wait
                }
            }
            None => Enough::Yes,
            Some(missing) if self.accepts_loss && self.holders.iter().all(Holder::is_had) => {
                self.given_up = Some(missing);
                Enough::Yes
            }
            Some(missing) if self.say_at.take_if(|at| *at <= now).is_some() => Enough::Missing(missing),
            Some(_) => Enough::Wait,
        }
    }

    /// The parts of the lists that should be brought home. There are none if home went back to before an epoch: that
    /// began without what the lists have of earlier ones, and its own writes do not follow home's mark (**StopAtGap**).
    pub(super) fn plan(&self, mark: Stamp, join_bytes: u64) -> Vec<Part> {
        if self.home.epoch > mark.epoch && !self.broken.is(Rule::StopAtGap) {
            return Vec::new();
        }
        self.lists.plan(mark, join_bytes, self.broken)
    }

    /// The lists that are missing, if they are too many. A list that lacks acknowledged writes counts as missing
    /// (**WholeList**). So does one with a damaged copy, unless another list has a good one.
    fn missing(&self, copies: u8, mark: Stamp) -> Option<Vec<PartitionId>> {
        let is_missing = |it: &&Holder| !it.is_listed || self.has_gone_back(it) || self.has_lost(it.partition, mark);
        let missing = self.holders.iter().filter(is_missing).map(|it| it.partition).collect::<Vec<_>>();
        let spared = if self.needed == Needed::All { 0 } else { usize::from(copies).saturating_sub(2) };
        let without = spared + usize::from(self.broken.is(Rule::EnoughLists));
        (missing.len() > without || self.needed == Needed::Owner).then_some(missing)
    }

    /// Whether a holder's list has come, and lacks writes that the holder has acknowledged.
    pub(super) fn has_gone_back(&self, holder: &Holder) -> bool {
        holder.has_gone_back() && !self.broken.is(Rule::WholeList)
    }

    /// Whether a holder has a damaged copy of what no list has.
    fn has_lost(&self, partition: PartitionId, mark: Stamp) -> bool {
        let is_lost = |stamp| stamp > mark && !self.lists.has(stamp);
        self.damaged.iter().any(|&(stamp, source)| source == Source::Holder(partition) && is_lost(stamp))
    }
}
