//! How an attached volume stands, for people.

use super::{Attached, State};
use machines::{HolderState, PartitionId, Standing, View};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use types::Time;

/// How an attached volume stands.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and a figure")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its size in bytes.
    pub size: u64,
    /// The number of this attachment.
    pub epoch: u64,
    /// Where its home is, for people.
    pub home: String,
    /// The bytes that writes which are not written back take in the log.
    pub dirty_bytes: u64,
    /// How many such writes there are.
    pub dirty_writes: usize,
    /// How old the oldest of them is.
    pub dirty_age: Option<Duration>,
    /// How many clean blocks are cached, and how many may be.
    pub clean_blocks: (usize, usize),
    /// The blocks that were read, by where they were found.
    pub reads: Reads,
    /// The blocks that were written, trimmed and zeroed.
    pub blocks_written: u64,
    /// How many write-backs have ended.
    pub write_backs: u64,
    /// Requests that wait for their answer.
    pub waiting: usize,
    /// The copies that a write should have, that of this host among them.
    pub copies: u8,
    /// The holders of copies.
    pub holders: Vec<CopiesAt>,
    /// Whether the cache's disk has no room for what waits.
    pub is_stuck: bool,
    /// Whether there are fewer copies to be had than each write should have.
    pub is_degraded: bool,
    /// Whether reads are answered: with a registry, only while its lease lasts.
    pub may_read: bool,
    /// The last error of home, while it lasts.
    pub home_error: Option<String>,
    /// The trouble with the registry: it was restored from an older copy; or it is not to be had, and the lease is
    /// over.
    pub registry_error: Option<String>,
    /// For how long the registry has answered nothing, if it does not answer.
    pub registry_silence: Option<Duration>,
    /// The last error of a read, of the cache or of home, and how long ago that was.
    pub read_error: Option<(String, Duration)>,
    /// Why clean blocks are not cached, while that lasts.
    pub clean_error: Option<String>,
    /// Why the cache takes nothing any more, if the volume continues without it.
    pub lost_cache: Option<String>,
    /// The holders whose copies this attachment began without, as its operator has accepted that. None of them if it
    /// was the cache before that was missing.
    pub gone_without: Option<Vec<PartitionId>>,
    /// Why nothing works any more.
    pub failed: Option<String>,
    /// Whether that is because home is not as it was left: it may lack what was promised.
    pub has_home_gone_back: bool,
    /// Whether that is because another host has the volume.
    pub is_ended: bool,
}

/// Blocks that were read, by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Among the writes that are not written back.
    pub dirty: u64,
    /// Among the clean blocks.
    pub clean: u64,
    /// At home.
    pub home: u64,
}

/// A holder of copies of an attached volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiesAt {
    /// Its partition.
    pub partition: PartitionId,
    /// Its name and address, as the registry had them last.
    pub member: Option<(String, String)>,
    /// How it stands.
    pub state: HolderState,
    /// The bytes of copies that it takes beyond those that it was sent.
    pub room: u64,
    /// Whether its disk is full, as it says.
    pub is_disk_full: bool,
}

/// Blocks since the volume was attached.
#[derive(Debug, Default)]
pub(super) struct Counts {
    reads: Reads,
    pub(super) written: u64,
}

impl Counts {
    /// A read whose blocks are there.
    pub(super) fn read(&mut self, Reads { dirty, clean, home }: Reads) {
        self.reads.dirty += dirty;
        self.reads.clean += clean;
        self.reads.home += home;
    }
}

impl Status {
    /// Why there are fewer copies than each write should have, if there are.
    pub fn degraded(&self) -> Option<String> {
        let wanted = usize::from(self.copies).saturating_sub(1);
        let known = self.holders.iter().filter(|it| it.state != HolderState::Lost).count();
        if self.lost_cache.is_some() {
            return Some("the cache has failed, and with it the copy of this host".to_owned());
        }
        let is_gone = |it: &&CopiesAt| matches!(it.state, HolderState::Lost | HolderState::Away);
        let why = || match self.holders.iter().find(is_gone) {
            None if known < wanted => format!(
                "it has {known} of the {wanted} holders that it takes: none is in another failure domain and has room"
            ),
            Some(CopiesAt { member: Some((name, address)), state, .. }) => {
                format!("holder {name} is {}, which was at {address} last", state.name())
            }
            Some(gone) => format!("holder {} is {}", gone.name(), gone.state.name()),
            None if self.holders.iter().any(|it| it.is_disk_full) => {
                let full: Vec<_> = self.holders.iter().filter(|it| it.is_disk_full).map(CopiesAt::name).collect();
                format!("the disk of holder {} is full", full.join(", "))
            }
            None => "its holders are being sent what they lack".to_owned(),
        };
        self.is_degraded.then(why)
    }
}

/// The lists that an attachment began without.
fn gone_without(begun: &View) -> Option<Vec<PartitionId>> {
    let accepted = begun.entry.accepted_loss.as_ref().filter(|it| it.epoch == begun.entry.epoch);
    accepted.map(|it| it.lists.clone())
}

impl CopiesAt {
    /// Its name, or its number if nobody knows it.
    pub fn name(&self) -> String {
        self.member.as_ref().map_or_else(|| format!("{:016x}", self.partition.0), |(name, _)| name.clone())
    }
}

/// The trouble with the registry, if there is any.
fn registry_error(state: &State, now: Time) -> Option<String> {
    let (_, back) = state.owner.registered_as()?;
    let gone_back = |back: &View| {
        format!(
            "it has gone back to revision {} of this volume, as if its store had been put back from an older copy; the entry \
             of this host is put there again when home says that nobody else has had the volume since. If that does not come \
             to an end, `thorp volume registry rebuild` makes the entries again",
            back.revision
        )
    };
    let is_over = !state.owner.may_read(now) && state.failed.is_none() && !state.is_detaching;
    back.map(gone_back).or_else(|| state.registry_error.clone().filter(|_| is_over))
}

impl Attached {
    /// How it stands.
    pub fn status(&self) -> Status {
        let core = &self.core;
        let state = core.state();
        let now = core.now();
        let copies_at = |Standing { partition, state: standing, room, .. }: Standing| CopiesAt {
            partition,
            member: state.sessions.member(partition),
            state: standing,
            room,
            is_disk_full: state.sessions.is_disk_full(partition),
        };
        Status {
            size: core.size.load(Relaxed),
            epoch: state.owner.epoch().0,
            home: core.home.place(),
            dirty_bytes: state.owner.dirty_bytes(),
            dirty_writes: state.dirty.len(),
            dirty_age: state.owner.dirty_since().map(|since| now - since),
            clean_blocks: state.clean.len(),
            reads: state.counts.reads,
            blocks_written: state.counts.written,
            write_backs: state.write_backs,
            waiting: state.owner.waiting(),
            copies: state.owner.copies(),
            holders: state.owner.holders().into_iter().map(copies_at).collect(),
            is_stuck: core.log.is_stuck(),
            is_degraded: state.owner.is_degraded(),
            may_read: state.owner.may_read(now),
            home_error: state.home_error.clone(),
            registry_error: registry_error(&state, now),
            registry_silence: state.sessions.unanswered_since.map(|since| since.elapsed()),
            clean_error: state.clean_error.clone(),
            read_error: state.read_error.as_ref().map(|(why, at)| (why.clone(), now - *at)),
            lost_cache: state.lost_cache.as_ref().map(|lost| lost.why.clone()),
            has_home_gone_back: state.has_home_gone_back,
            gone_without: core.copies.as_ref().and_then(|copies| gone_without(&copies.view)),
            failed: state.failed.clone(),
            is_ended: state.is_ended,
        }
    }
}
