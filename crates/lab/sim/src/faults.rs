//! The faults, in words: each strikes at its own rate while the storm lasts.

use crate::branches::BranchId;
use crate::disk::{Disk, Operation};
use crate::layout::Mishap;
use crate::network::End;
use crate::process::STORE;
use crate::violation::Check;
use crate::world::{Event, World};
use core::time::Duration;
use types::{Rule, SessionId, Time, Version};

/// Something that goes wrong, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store's process dies, and its disk loses what was not durable.
    StoreCrash,
    /// It dies again while it recovers.
    StoreCrashAgain,
    /// The store is closed in good order, and started again.
    StoreClose,
    /// An operator copies the store's directory, or stops the store and puts the copy in its place.
    Restore,
    /// A client's process dies.
    ClientCrash,
    /// A redirector's process dies.
    RedirectorCrash,
    /// Nothing arrives between two processes for a while.
    Sever,
    /// A connection is lost.
    Cut,
    /// Nothing arrives on one path for a while.
    Stall,
    /// A process does nothing for a while.
    Pause,
    /// The disk is slow for a while.
    SlowDisk,
    /// The disk has no room for new pages for a while.
    HomeFull,
    /// The system refuses one kind of the disk's work for a while, for lack of something.
    DiskRefuses,
    /// The disk is itself again.
    DiskWell,
    /// There is room again.
    RoomAgain,
}

/// A copy of the store's directory.
#[derive(Debug)]
pub(crate) struct Copied {
    disk: Disk,
    /// Which history it was copied from, and at which count.
    from: BranchId,
    at: Version,
}

const ALL: [Fault; 12] = [
    Fault::StoreCrash,
    Fault::StoreClose,
    Fault::Restore,
    Fault::ClientCrash,
    Fault::RedirectorCrash,
    Fault::Sever,
    Fault::Cut,
    Fault::Stall,
    Fault::Pause,
    Fault::SlowDisk,
    Fault::HomeFull,
    Fault::DiskRefuses,
];

impl World {
    /// The storm begins.
    pub(crate) fn schedule_faults(&mut self) {
        for fault in ALL {
            self.expect_fault(fault);
        }
    }

    /// The faults stop, and what they have done is undone or runs out.
    pub(crate) fn calm(&mut self) {
        self.storm = false;
        self.crash_when_busy = false;
        self.disk.home_full = false;
        self.disk.slowness = 1;
        self.disk.refuses = None;
        self.network.heal(self.scenario.stays_slow);
        for process in &mut self.processes {
            process.paused_until = Time::ZERO;
            process.stops.iter_mut().for_each(|(_, until)| *until = (*until).min(self.now));
        }
        self.trace.event(self.now, &[30], || "the storm is over");
        if self.scenario.dead_weight {
            let number = self.scenario.clients;
            self.trace.event(self.now, &[41], || format!("process {number} stands still for good"));
            self.processes[number].paused_until = Time(u64::MAX);
        }
    }

    fn expect_fault(&mut self, fault: Fault) {
        let rates = &self.scenario.rates;
        let rate = match fault {
            Fault::StoreCrash => rates.store_crash,
            Fault::StoreClose => rates.store_close,
            Fault::Restore => rates.restore,
            Fault::ClientCrash => rates.client_crash,
            Fault::RedirectorCrash => rates.redirector_crash,
            Fault::Sever => rates.sever,
            Fault::Cut => rates.cut,
            Fault::Stall => rates.stall,
            Fault::Pause => rates.pause,
            Fault::SlowDisk => rates.slow_disk,
            Fault::HomeFull => rates.home_full,
            Fault::DiskRefuses => rates.refuse,
            Fault::StoreCrashAgain | Fault::DiskWell | Fault::RoomAgain => None,
        };
        if let Some(mean) = rate {
            let after = self.rng.around(mean);
            self.later(after, Event::Fault(fault));
        }
    }

    /// A fault strikes, and the next of its kind is on its way.
    pub(crate) fn strike(&mut self, fault: Fault) -> Check {
        if !self.storm {
            return Ok(());
        }
        self.expect_fault(fault);
        match fault {
            // Half of the crashes wait until the disk is in the middle of something.
            Fault::StoreCrash if self.rng.chance(500) => self.crash_when_busy = true,
            Fault::StoreCrash | Fault::StoreCrashAgain => return self.crash_store(),
            Fault::StoreClose => return self.close_store(),
            Fault::Restore => self.copy_or_restore(),
            Fault::ClientCrash => self.crash_client(),
            Fault::RedirectorCrash => self.crash_redirector(),
            Fault::Sever => self.sever(),
            Fault::Cut => self.cut(),
            Fault::Stall => self.stall(),
            Fault::Pause => self.pause(),
            Fault::SlowDisk => self.slow_disk(),
            Fault::HomeFull => self.fill_home(),
            Fault::DiskRefuses => self.refuse_disk_work(),
            Fault::DiskWell => self.disk.slowness = 1,
            Fault::RoomAgain => self.disk.home_full = false,
        }
        Ok(())
    }

    /// Of the unsynced work these appends survive, and the install that is under way or not.
    pub(crate) fn lose_power(&mut self, appends: usize, install: bool) -> Check {
        let (unsynced, installing) = (self.disk.unsynced(), self.disk.is_installing());
        self.trace.event(self.now, &[31, appends as u64, u64::from(install)], || {
            let install = match (installing, install) {
                (false, _) => "no install is under way",
                (true, true) => "the install survives",
                (true, false) => "the install does not",
            };
            format!("the power fails: {appends} of {unsynced} unsynced appends survive, {install}")
        });
        let durable = self.disk.crash(appends, install);
        self.durable(&durable)
    }

    /// The store's process dies and starts again later; what its disk keeps of the unsynced work is drawn.
    pub(crate) fn crash_store(&mut self) -> Check {
        if self.processes[STORE].node.is_none() {
            return Ok(());
        }
        self.trace.event(self.now, &[32], || "the store crashes");
        self.kill_store();
        // Now and then it dies again while it recovers.
        let again = self.rng.chance(200);
        let down = if again { Duration::from_micros(500) } else { Duration::from_millis(30) };
        let after = self.rng.around(down);
        self.later(after, Event::Start(STORE));
        if again {
            let after = after + self.rng.around(Duration::from_millis(1));
            self.later(after, Event::Fault(Fault::StoreCrashAgain));
        }
        let survive = self.rng.index(self.disk.unsynced() + 1);
        let install = self.rng.chance(500);
        self.lose_power(survive, install)
    }

    /// Copies what the store has on its disk, or puts in its place what was copied before.
    fn copy_or_restore(&mut self) {
        match self.copy.take() {
            Some(copy) if self.rng.chance(700) => self.restore(&copy),
            _ => {
                let (from, at) = (self.history.branches.newest(), self.history.ledger().count());
                self.trace.event(self.now, &[46, at.0], || format!("the store's directory is copied at {at:?}"));
                self.copy = Some(Copied { disk: self.disk.copy(), from, at });
            }
        }
    }

    /// The store's process ends, and starts again later with what was copied.
    fn restore(&mut self, copy: &Copied) {
        let (lost, at) = (self.history.ledger().count(), copy.at);
        self.trace.event(self.now, &[47, at.0], || format!("the store of {lost:?} is restored from a copy of {at:?}"));
        self.kill_store();
        self.disk.put_back(&copy.disk);
        self.history.branches.fork(copy.from, copy.at);
        let after = self.rng.around(Duration::from_millis(30));
        self.later(after, Event::Start(STORE));
    }

    /// Injects a fault into a process of an experiment.
    pub(crate) fn inject(&mut self, number: usize, mishap: Mishap) -> Check {
        self.trace.event(self.now, &[44, number as u64], || format!("process {number}: {mishap:?}"));
        match mishap {
            Mishap::Killed => self.kill(number),
            Mishap::Hangs => self.processes[number].paused_until = Time(u64::MAX),
            Mishap::Replaced => {
                self.kill(number);
                return self.start(number);
            }
        }
        Ok(())
    }

    /// Nothing of the store's process is left but its disk.
    pub(crate) fn kill_store(&mut self) {
        self.kill(STORE);
    }

    /// Nothing of a process is left.
    pub(crate) fn kill(&mut self, number: usize) {
        self.processes[number].die();
        for (id, end) in self.network.connections_of(number) {
            self.network.deaf(id, end);
            if let Some(connection) = self.network.connection(id)
                && end == End::Listener
            {
                connection.accepted = false;
            }
            self.break_off(id);
        }
    }

    /// The store's process is told to end in good order.
    pub(crate) fn close_store(&mut self) -> Check {
        let now = self.clock(STORE);
        self.trace.event(self.now, &[33], || "the store is told to close");
        if let Some(node) = &mut self.processes[STORE].node {
            node.close(now);
        }
        self.pump(STORE)
    }

    fn crash_client(&mut self) {
        let number = 1 + self.rng.index(self.scenario.clients);
        self.crash(number);
    }

    fn crash_redirector(&mut self) {
        if let Some(number) = self.draw_redirector() {
            self.crash(number);
        }
    }

    fn draw_redirector(&mut self) -> Option<usize> {
        let redirectors = self.scenario.redirectors();
        (!redirectors.is_empty()).then(|| redirectors.start + self.rng.index(redirectors.len()))
    }

    /// A process dies and starts again later.
    fn crash(&mut self, number: usize) {
        if self.processes[number].node.is_none() {
            return;
        }
        self.trace.event(self.now, &[34, number as u64], || format!("process {number} crashes"));
        self.kill(number);
        let after = self.rng.around(Duration::from_millis(20));
        self.later(after, Event::Start(number));
    }

    /// Nothing arrives between a process and another: a peer, or its redirector, or its store.
    fn sever(&mut self) {
        let (a, b) = (self.rng.index(self.processes.len()), self.rng.index(self.processes.len()));
        let until = self.now + self.rng.around(self.scenario.standstill / 2);
        self.trace.event(self.now, &[42, a as u64, b as u64], || {
            format!("nothing arrives between processes {a} and {b} until {until:?}")
        });
        self.network.sever(a, b, until);
    }

    fn cut(&mut self) {
        let open: Vec<SessionId> = self.network.connections().map(|(id, _)| id).collect();
        if !open.is_empty() {
            let session = self.rng.pick(&open);
            self.break_off(session);
        }
    }

    /// A connection breaks; each end learns of it at its own time.
    fn break_off(&mut self, session: SessionId) {
        let ignorance = self.scenario.ignorance;
        let mut heard = ignorance.map(|longest| self.rng.around(longest / 2));
        if ignorance == [Duration::ZERO; 2] {
            // Each end learns of it as soon as it can.
            heard = [self.network.delay(session).map_or(Duration::ZERO, |delay| delay.least); 2];
        }
        let (arrivals, lost) = self.network.cut(self.now, session, heard, &mut self.rng);
        self.trace.event(self.now, &[35, session.0, lost as u64], || {
            format!("s{} breaks: {lost} messages under way are lost", session.0)
        });
        self.expect(arrivals);
    }

    fn stall(&mut self) {
        let number = 1 + self.rng.index(self.processes.len() - 1);
        let until = self.now + self.rng.around(self.scenario.standstill / 2);
        self.trace
            .event(self.now, &[36, number as u64], || format!("nothing reaches process {number} until {until:?}"));
        self.network.path(number).stalled_until = until;
    }

    fn pause(&mut self) {
        let number = self.rng.index(self.processes.len());
        let until = self.now + self.rng.around(self.scenario.standstill / 2);
        self.trace.event(self.now, &[37, number as u64], || format!("process {number} stands still until {until:?}"));
        let since = self.processes[number].paused_until.max(self.now);
        self.processes[number].paused_until = until;
        if self.scenario.store.broken.is(Rule::RunOnAsleep) && since < until {
            self.processes[number].stops.push((since, until));
        }
    }

    fn slow_disk(&mut self) {
        self.trace.event(self.now, &[38], || "the disk is slow");
        self.disk.slowness = 20;
        let after = self.rng.around(Duration::from_millis(50));
        self.later(after, Event::Fault(Fault::DiskWell));
    }

    /// As when there are no file descriptors left, or no memory: the one that does the work tries it again until it can
    /// be done.
    fn refuse_disk_work(&mut self) {
        let (kind, until) = (self.rng.index(Operation::KINDS), self.now + self.rng.around(Duration::from_millis(30)));
        self.trace
            .event(self.now, &[45, kind as u64], || format!("the disk refuses work of kind {kind} until {until:?}"));
        self.disk.refuses = Some((kind, until));
    }

    fn fill_home(&mut self) {
        self.trace.event(self.now, &[39], || "the disk is full");
        self.disk.home_full = true;
        let after = self.rng.around(Duration::from_millis(200));
        self.later(after, Event::Fault(Fault::RoomAgain));
    }
}
