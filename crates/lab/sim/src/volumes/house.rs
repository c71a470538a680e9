//! Home: blocks that are written and synced, its journal, and what a crash leaves of them.
//!
//! A block that was written and not synced is lost in a crash, or not, each by itself.

use super::blocks::{BLOCKS, Image};
use crate::rng::Rng;
use machines::{Epoch, Home, HomeRefusal, HomeState, HostId, Rule, Stamp, Step};
use std::collections::VecDeque;
use types::Broken;

/// The contents of home's device.
#[derive(Clone, Debug)]
struct Device {
    epoch: Epoch,
    owner: HostId,
    mark: Stamp,
    blocks: Image,
    /// The write-back in the journal, with the mark that it comes to, when all of it is there.
    journal: Option<(Stamp, Vec<(usize, Stamp)>)>,
}

/// A host in one of its lives: an answer for an earlier one is for nobody.
pub(crate) type Caller = (usize, u64);

/// A call of a host.
#[derive(Clone, Debug)]
pub(crate) enum HomeCall {
    Fence(Epoch, HostId),
    Write(WriteCall),
    /// The newest epoch, its owner and the mark should be told.
    Ask,
}

/// A write-back.
#[derive(Clone, Debug)]
pub(crate) struct WriteCall {
    pub(crate) epoch: Epoch,
    pub(crate) through: Stamp,
    pub(crate) is_joined: bool,
    pub(crate) blocks: Vec<(usize, Stamp)>,
}

/// Its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HomeAnswer {
    Fenced(Epoch, Stamp),
    Durable(Stamp),
    Failed,
    Ended(Epoch),
    /// The volume is this host's, under this epoch, and everything up to here is home.
    Says(Epoch, HostId, Stamp),
}

#[derive(Debug)]
pub(crate) struct House {
    machine: Home,
    device: Device,
    /// The blocks that were written in place and not synced.
    unsynced: VecDeque<(usize, Stamp)>,
    /// The write-back under way, what of it should be written yet, and the host that waits for it.
    call: Option<(Caller, WriteCall)>,
    left: Vec<(usize, Stamp)>,
    is_writing: bool,
    fencing: Option<(Caller, Epoch)>,
    /// Counts its starts, and how often its files were others than those that it left.
    life: u64,
    generation: u64,
    /// A copy of its device, and how often one was brought back.
    backup: Option<Device>,
    restores: u64,
    /// The newest epoch, also if it is about to begin, and whose it is.
    newest: (Epoch, HostId),
    broken: Broken<Rule>,
}

impl House {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        let (epoch, owner, mark) = (Epoch(0), HostId(u64::MAX), Stamp::ZERO);
        let device = Device { epoch, owner, mark, blocks: [Stamp::ZERO; BLOCKS], journal: None };
        let machine = Home::new(device.epoch, device.mark, None, broken);
        Self {
            machine,
            device,
            unsynced: VecDeque::new(),
            call: None,
            left: Vec::new(),
            is_writing: false,
            fencing: None,
            newest: (epoch, owner),
            life: 1,
            generation: 1,
            backup: None,
            restores: 0,
            broken,
        }
    }

    /// The blocks as a reader gets them.
    pub(crate) fn image(&self) -> Image {
        let mut image = self.device.blocks;
        for &(block, stamp) in &self.unsynced {
            image[block] = stamp;
        }
        image
    }

    /// The blocks as they would be after a crash now, and a start after it.
    pub(crate) fn after_crash(&self, rng: &mut Rng) -> Image {
        let mut image = self.device.blocks;
        let lost = rng.below(2) == 0;
        for &(block, stamp) in &self.unsynced {
            if lost || rng.below(2) == 0 {
                image[block] = stamp;
            }
        }
        if let Some((_, blocks)) = &self.device.journal
            && !self.broken.is(Rule::JournalWhole)
        {
            for &(block, stamp) in blocks {
                image[block] = stamp;
            }
        }
        image
    }

    /// Dies and starts again; gives the hosts that wait for it.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> Vec<Caller> {
        let calling = self.call.as_ref().map(|(host, _)| *host);
        let waiting = calling.into_iter().chain(self.fencing.map(|(host, _)| host)).collect();
        while let Some((block, stamp)) = self.unsynced.pop_front() {
            if rng.below(2) == 0 {
                self.device.blocks[block] = stamp;
            }
        }
        let Device { epoch, owner, mark, ref journal, .. } = self.device;
        self.newest = (epoch, owner);
        self.machine = Home::new(epoch, mark, journal.as_ref().map(|(through, _)| *through), self.broken);
        (self.call, self.fencing, self.is_writing) = (None, None, false);
        self.left.clear();
        self.life += 1;
        waiting
    }

    /// The number of its start: a session of an earlier one is over.
    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// How it stands, as it says at the begin of a session.
    pub(crate) fn state(&self) -> HomeState {
        HomeState { generation: self.generation, mark: self.machine.mark() }
    }

    /// How often it was one of before.
    pub(crate) fn restores(&self) -> u64 {
        self.restores
    }

    /// A copy of its device is made, or it dies and starts with that: as other files, or as the same ones if the copy
    /// is its disk's. Returns the hosts that wait for it, if it was restored.
    pub(crate) fn restore(&mut self, rng: &mut Rng) -> Option<Vec<Caller>> {
        let Some(backup) = self.backup.clone().filter(|_| rng.below(2) == 0) else {
            if self.machine.step().is_none() && self.unsynced.is_empty() && self.device.journal.is_none() {
                self.backup = Some(self.device.clone());
            }
            return None;
        };
        let waiting = self.crash(rng);
        self.device = backup;
        self.newest = (self.device.epoch, self.device.owner);
        self.machine = Home::new(self.device.epoch, self.device.mark, None, self.broken);
        self.generation += rng.below(2);
        self.restores += 1;
        Some(waiting)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.machine.step().is_some()
    }

    /// The newest epoch that has begun, whose it is, and the mark.
    pub(crate) fn stands(&self) -> (Epoch, HostId, Stamp) {
        (self.machine.epoch(), self.newest.1, self.machine.mark())
    }

    /// A call has arrived. Returns what should be told at once, and to whom.
    pub(crate) fn take(&mut self, host: Caller, call: HomeCall) -> Vec<(Caller, HomeAnswer)> {
        let taken = match &call {
            // Of two hosts that want the same one, it is that of the first.
            HomeCall::Fence(epoch, owner) if self.newest.0 == *epoch && self.newest.1 != *owner => {
                Err(HomeRefusal::Ended(*epoch))
            }
            HomeCall::Fence(epoch, _) => self.machine.fence(*epoch),
            HomeCall::Ask => {
                let (epoch, owner, mark) = self.stands();
                return vec![(host, HomeAnswer::Says(epoch, owner, mark))];
            }
            HomeCall::Write(write) => self.machine.begin(write.epoch, write.through, write.is_joined),
        };
        match (taken, call) {
            (Err(HomeRefusal::Ended(epoch)), _) => vec![(host, HomeAnswer::Ended(epoch))],
            (Err(HomeRefusal::Busy | HomeRefusal::TooFar(_)), _) => vec![(host, HomeAnswer::Failed)],
            (Err(HomeRefusal::NotNext(mark)), _) => vec![(host, HomeAnswer::Durable(mark))],
            (Ok(()), HomeCall::Fence(epoch, owner)) => {
                self.newest = (epoch, owner);
                let earlier = self.fencing.replace((host, epoch)).map(|(host, _)| host);
                // The fence puts an end to a write-back that is not whole in the journal.
                let is_ended = matches!(self.machine.step(), Some(Step::Fence(_)));
                let writer = self.call.take_if(|_| is_ended).map(|(host, _)| host);
                if is_ended {
                    self.left.clear();
                    self.is_writing = false;
                }
                earlier.into_iter().chain(writer).map(|host| (host, HomeAnswer::Failed)).collect()
            }
            (Ok(()), HomeCall::Write(write)) => {
                self.call = Some((host, write));
                Vec::new()
            }
            (Ok(()), HomeCall::Ask) => Vec::new(),
        }
    }

    /// Does a piece of work: writes a block, or syncs; gives who should be told, and what.
    pub(crate) fn work(&mut self, rng: &mut Rng) -> Option<(Caller, HomeAnswer)> {
        let step = self.machine.step()?;
        if step == Step::Install {
            if !self.is_writing {
                self.is_writing = true;
                let journal = self.device.journal.as_ref().map(|(_, blocks)| blocks.clone());
                self.left =
                    journal.unwrap_or_else(|| self.call.as_ref().map_or(Vec::new(), |(_, it)| it.blocks.clone()));
            }
            if !self.left.is_empty() {
                // In any order.
                let block = self.left.swap_remove(rng.index(self.left.len()));
                self.unsynced.push_back(block);
                return None;
            }
            self.is_writing = false;
        }
        // A sync leaves nothing unsynced, whatever it is for.
        while let Some((block, stamp)) = self.unsynced.pop_front() {
            self.device.blocks[block] = stamp;
        }
        match step {
            Step::Journal => {
                let blocks = self.call.as_ref().map(|(_, it)| (it.through, it.blocks.clone()));
                self.device.journal = blocks;
            }
            Step::Install => {}
            Step::Mark(through) => (self.device.mark, self.device.journal) = (through.max(self.device.mark), None),
            Step::Fence(epoch) => {
                (self.device.epoch, self.device.journal) = (epoch, None);
                self.device.owner = self.newest.1;
            }
        }
        let mark = self.machine.done(step);
        if let Step::Fence(epoch) = step {
            let (host, _) = self.fencing.take().filter(|(_, it)| *it == epoch)?;
            return Some((host, HomeAnswer::Fenced(epoch, self.machine.mark())));
        }
        let through = mark?;
        let (host, _) = self.call.take()?;
        Some((host, HomeAnswer::Durable(through)))
    }
}
