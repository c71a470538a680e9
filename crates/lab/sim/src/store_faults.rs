//! The faults of runs of the store's family: of the store's process and disk, and of who else dies.

use crate::crash_point::{CrashPoint, UnderWay};
use crate::engine::Event;
use crate::faults::Fault;
use crate::layout::Mishap;
use crate::scenario::{STORE, StoreFault};
use crate::store_run::{Copied, Run};
use crate::violation::Check;
use core::time::Duration;
use types::Time;

impl Run {
    pub(crate) fn strike_store(&mut self, fault: StoreFault) -> Check {
        match fault {
            // Half of the crashes wait until the disk is in the middle of something.
            StoreFault::StoreCrash if self.rng.chance(500) => self.scene.crash_when_busy = true,
            StoreFault::StoreCrash | StoreFault::StoreCrashAgain => return self.crash_store(),
            StoreFault::StoreClose => return self.close_store(),
            StoreFault::Restore => self.copy_or_restore(),
            StoreFault::ClientCrash => self.crash_client(),
            StoreFault::RedirectorCrash => self.crash_redirector(),
            StoreFault::HomeFull => self.fill_home(),
            StoreFault::RoomAgain => self.disk().home_full = false,
        }
        Ok(())
    }

    /// The storm is over, and what it has done to the disk too.
    pub(crate) fn calm_down(&mut self) {
        self.scene.crash_when_busy = false;
        self.disk().home_full = false;
        self.calm(self.scene.scenario.stays_slow);
        if self.scene.scenario.dead_weight {
            let number = self.scene.scenario.clients;
            self.trace.event(self.now, &[41], || format!("process {number} stands still for good"));
            self.processes[number].paused_until = Time(u64::MAX);
        }
    }

    /// Crashes if a crash was put at this disk operation, or waits for one like it.
    pub(crate) fn crash_here(&mut self) -> Check {
        let under_way = UnderWay { appends: self.disk().unsynced(), install: self.disk().is_installing() };
        let is_busy = under_way.install || under_way.appends > 1;
        if self.scene.crash_when_busy && is_busy && self.rng.chance(300) {
            self.scene.crash_when_busy = false;
            return self.crash_store();
        }
        let here = |crash: &&CrashPoint| crash.operation <= self.disk_operations;
        let Some(crash) = self.scene.crashes.front().filter(here).copied() else { return Ok(()) };
        self.scene.crashes.pop_front();
        if crash.operation == self.disk_operations {
            self.scene.under_way = under_way;
        }
        self.kill(STORE);
        self.later(Duration::from_millis(1), Event::Start(STORE));
        self.keep(crash.appends.min(under_way.appends), crash.install)
    }

    /// Of the unsynced work these appends survive, and the install that is under way or not.
    pub(crate) fn keep(&mut self, appends: usize, install: bool) -> Check {
        let (unsynced, installing) = (self.disk().unsynced(), self.disk().is_installing());
        self.trace.event(self.now, &[31, appends as u64, u64::from(install)], || {
            let install = match (installing, install) {
                (false, _) => "no install is under way",
                (true, true) => "the install survives",
                (true, false) => "the install does not",
            };
            format!("the power fails: {appends} of {unsynced} unsynced appends survive, {install}")
        });
        let durable = self.disk().crash(appends, install);
        self.durable(&durable)
    }

    /// The store's process dies and starts again later; what its disk keeps of the unsynced work is drawn.
    pub(crate) fn crash_store(&mut self) -> Check {
        if self.processes[STORE].node.is_none() {
            return Ok(());
        }
        self.trace.event(self.now, &[32], || "the store crashes");
        self.kill(STORE);
        // Now and then it dies again while it recovers.
        let again = self.rng.chance(200);
        let down = if again { Duration::from_micros(500) } else { Duration::from_millis(30) };
        let after = self.rng.around(down);
        self.later(after, Event::Start(STORE));
        if again {
            let after = after + self.rng.around(Duration::from_millis(1));
            self.later(after, Event::Fault(Fault::Own(StoreFault::StoreCrashAgain)));
        }
        let unsynced = self.disk().unsynced();
        let survive = self.rng.index(unsynced + 1);
        let install = self.rng.chance(500);
        self.keep(survive, install)
    }

    /// Copies what the store has on its disk, or puts in its place what was copied before.
    fn copy_or_restore(&mut self) {
        match self.scene.copy.take() {
            Some(copy) if self.rng.chance(700) => self.restore(&copy),
            _ => {
                let (from, at) = (self.scene.history.branches.newest(), self.scene.history.ledger().rank());
                self.trace.event(self.now, &[46, at.0 as u64], || format!("the store's directory is copied at {at:?}"));
                self.scene.copy = Some(Copied { disk: self.disk().copy(), from, at });
            }
        }
    }

    /// The store's process ends, and starts again later with what was copied.
    fn restore(&mut self, copy: &Copied) {
        let (lost, at) = (self.scene.history.ledger().rank(), copy.at);
        self.trace
            .event(self.now, &[47, at.0 as u64], || format!("the store of {lost:?} is restored from a copy of {at:?}"));
        self.kill(STORE);
        self.disk().put_back(&copy.disk);
        self.scene.history.branches.fork(copy.from, copy.at);
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
        let number = 1 + self.rng.index(self.scene.scenario.clients);
        self.crash(number, Duration::from_millis(20));
    }

    fn crash_redirector(&mut self) {
        if let Some(number) = self.draw_redirector() {
            self.crash(number, Duration::from_millis(20));
        }
    }

    fn draw_redirector(&mut self) -> Option<usize> {
        let redirectors = self.scene.scenario.redirectors();
        (!redirectors.is_empty()).then(|| redirectors.start + self.rng.index(redirectors.len()))
    }

    fn fill_home(&mut self) {
        self.trace.event(self.now, &[39], || "the disk is full");
        self.disk().home_full = true;
        let after = self.rng.around(Duration::from_millis(200));
        self.later(after, Event::Fault(Fault::Own(StoreFault::RoomAgain)));
    }
}
