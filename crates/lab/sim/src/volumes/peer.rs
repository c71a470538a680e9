//! A holder in its process, with its log.

use super::blocks::BLOCK;
use super::scenario::Scenario;
use crate::rng::Rng;
use machines::{
    FromHolder, Holder, HolderConfig, HolderEffect, HolderEntry, Life, PartitionId, Rule, Stamp, ToHolder, is_whole,
};
use std::collections::VecDeque;
use types::limits::VOLUME_COPY_BYTES;
use types::{Broken, GoodbyeReason, SessionId};

/// A wish of a holder.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    Say(SessionId, FromHolder),
    End(SessionId, GoodbyeReason),
}

#[derive(Debug)]
pub(crate) struct Peer {
    config: HolderConfig,
    pub(crate) partition: PartitionId,
    /// The life that its directory is in.
    pub(crate) life: Life,
    pub(crate) holder: Holder,
    pub(crate) is_up: bool,
    pub(crate) is_leaving: bool,
    /// The log: what was freed is gone from it.
    log: VecDeque<Option<HolderEntry>>,
    /// Entries of this life that were appended, and those that are stable.
    appended: u64,
    stable: u64,
    /// The entries that its directory says were stable.
    noted: usize,
    /// A copy of its directory.
    copy: Option<Directory>,
}

/// A copy of a holder's directory, with everything that was on its device then.
#[derive(Debug)]
struct Directory {
    partition: PartitionId,
    life: Life,
    log: VecDeque<Option<HolderEntry>>,
    noted: usize,
}

impl Peer {
    pub(crate) fn new(partition: PartitionId, scenario: &Scenario, broken: Broken<Rule>) -> Self {
        let bytes = BLOCK + VOLUME_COPY_BYTES;
        let config = HolderConfig {
            window: scenario.window_writes * bytes,
            copies_per_list: scenario.copies_per_list,
            broken,
            ..HolderConfig::new(partition, scenario.room_writes * bytes)
        };
        Self {
            config,
            partition,
            life: Life::default(),
            holder: Holder::new(config),
            is_up: true,
            is_leaving: false,
            log: VecDeque::new(),
            appended: 0,
            stable: 0,
            noted: 0,
            copy: None,
        }
    }

    /// A copy of its directory is made.
    pub(crate) fn copy(&mut self) {
        let soft = if self.is_up { (self.appended - self.stable) as usize } else { 0 };
        let log = self.log.iter().take(self.log.len() - soft).cloned().collect();
        self.copy = Some(Directory { partition: self.partition, life: self.life, log, noted: self.noted });
    }

    /// The life of the copy, if there is one of this partition.
    pub(crate) fn copied_life(&self) -> Option<Life> {
        self.copy.as_ref().filter(|it| it.partition == self.partition).map(|it| it.life)
    }

    /// The stable writes that the directory has and its copy lacks. `None` without a copy of this life, or if a later
    /// epoch was recorded: a holder that forgets an epoch takes writes of the one before.
    pub(crate) fn made_since_copy(&self) -> Option<Vec<Stamp>> {
        let copy = self.copy.as_ref().filter(|it| (it.partition, it.life) == (self.partition, self.life))?;
        let soft = if self.is_up { (self.appended - self.stable) as usize } else { 0 };
        let since = self.log.iter().take(self.log.len() - soft).skip(copy.log.len());
        let stamp =
            |entry: &HolderEntry| if let HolderEntry::Copy(_, _, record) = entry { Some(record.stamp) } else { None };
        since.flatten().map(stamp).collect()
    }

    /// Its directory, while it is down, is the copy.
    pub(crate) fn restore(&mut self) {
        if let Some(Directory { life, log, noted, .. }) = self.copy.take() {
            (self.life, self.log, self.noted) = (life, log, noted);
        }
    }

    /// Its device, while it is down, loses the end of the log, and what was stable with it. Returns the entries that
    /// are left.
    pub(crate) fn lose_tail(&mut self, rng: &mut Rng) -> usize {
        self.log.truncate(rng.index(self.log.len() + 1));
        self.log.len()
    }

    /// Whether its log has everything that its directory says was stable.
    pub(crate) fn is_whole(&self, broken: Broken<Rule>) -> bool {
        is_whole(self.log.len() as u64, self.noted as u64, broken)
    }

    pub(crate) fn is_soft(&self) -> bool {
        self.is_up && self.stable < self.appended
    }

    /// Dies. Of what is not stable the first part may be there all the same.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let soft = (self.appended - self.stable) as usize;
        self.log.truncate(self.log.len() - rng.index(soft + 1));
        self.is_up = false;
    }

    /// Starts with what its device has.
    pub(crate) fn start(&mut self) {
        self.holder = Holder::new(self.config);
        self.log.iter().flatten().for_each(|entry| self.holder.recover(entry));
        (self.appended, self.stable, self.is_up, self.is_leaving) = (0, 0, true, false);
    }

    /// Starts with another device.
    pub(crate) fn start_empty(&mut self, partition: PartitionId) {
        self.log.clear();
        self.noted = 0;
        (self.config.partition, self.partition) = (partition, partition);
        self.start();
    }

    /// Does not want to leave any more.
    pub(crate) fn stay(&mut self) {
        self.is_leaving = false;
        self.holder.stay();
    }

    pub(crate) fn sync(&mut self, rng: &mut Rng) {
        self.stable += rng.between(1, self.appended - self.stable);
        self.noted = self.log.len() - (self.appended - self.stable) as usize;
        self.holder.stable(self.stable);
    }

    pub(crate) fn hear(&mut self, session: SessionId, message: ToHolder) {
        self.holder.heard(session, message);
    }

    /// Does what the holder wants.
    pub(crate) fn drain(&mut self, rng: &mut Rng) -> Vec<PeerEvent> {
        let mut events = Vec::new();
        while let Some(effect) = self.holder.poll_effect() {
            match effect {
                HolderEffect::Append(entry) => {
                    self.log.push_back(Some(entry));
                    self.appended += 1;
                }
                HolderEffect::Send(session, message) => events.push(PeerEvent::Say(session, message)),
                HolderEffect::End(session, reason, _) => events.push(PeerEvent::End(session, reason)),
                HolderEffect::Read(session, _, stamp) => {
                    let record = self.find(stamp);
                    self.holder.read(session, stamp, record);
                }
                HolderEffect::Free(_, through) => self.free(through, rng),
                HolderEffect::Ask(..) => unreachable!("every peer is one that the registry knows"),
            }
        }
        events
    }

    fn find(&self, stamp: Stamp) -> Option<(machines::Extent, machines::Content)> {
        self.log.iter().flatten().rev().find_map(|entry| match entry {
            HolderEntry::Copy(_, _, record) if record.stamp == stamp => Some((record.extent, record.content.clone())),
            _ => None,
        })
    }

    /// The place of what was freed is taken by something else, soon or never.
    fn free(&mut self, through: Stamp, rng: &mut Rng) {
        for entry in &mut self.log {
            let is_freed = matches!(entry, Some(HolderEntry::Copy(_, _, record)) if record.stamp <= through);
            if is_freed && rng.below(2) == 0 {
                *entry = None;
            }
        }
    }
}
