//! The storm: faults strike whatever process or connection is drawn, and in the end stop.

use crate::drive::{Drive, Operation};
use crate::engine::{Engine, Event, Scene};
use crate::faults::Fault;
use crate::violation::Check;
use core::time::Duration;
use types::{SessionId, Time};

impl<S: Scene> Engine<S> {
    /// The storm begins.
    pub(crate) fn schedule_faults(&mut self) {
        for rate in 0..self.faults.rates.len() {
            self.expect_fault(rate);
        }
    }

    fn expect_fault(&mut self, rate: usize) {
        let (fault, mean) = self.faults.rates[rate];
        let after = self.rng.around(mean);
        self.later(after, Event::Fault(fault));
    }

    /// A fault strikes, and the next of its kind is on its way.
    pub(crate) fn strike(&mut self, fault: Fault<S::Fault>) -> Check {
        if !self.faults.storm {
            return Ok(());
        }
        if let Some(rate) = self.faults.rates.iter().position(|(known, _)| *known == fault) {
            self.expect_fault(rate);
        }
        match fault {
            Fault::Crash => self.crash_any(),
            Fault::Sever => self.sever(),
            Fault::Cut => self.cut(),
            Fault::Stall => self.stall(),
            Fault::Pause => self.pause(),
            Fault::SlowDisk => self.slow_disk(),
            Fault::DiskRefuses => self.refuse_disk_work(),
            Fault::DiskFails => self.fail_disk(),
            Fault::Own(fault) => return S::strike(self, fault),
        }
        Ok(())
    }

    /// The faults stop, and what they have done is undone or runs out.
    pub(crate) fn calm(&mut self, stays_slow: bool) {
        self.faults.storm = false;
        self.network.heal(stays_slow);
        for process in &mut self.processes {
            for drive in process.drives.values_mut() {
                (drive.slow_until, drive.refuses) = (Time::ZERO, None);
            }
            process.paused_until = Time::ZERO;
            process.stops.iter_mut().for_each(|(_, until)| *until = (*until).min(self.now));
        }
        self.trace.event(self.now, &[30], || "the storm is over");
    }

    /// The power of a process that has died fails: of what was not durable its disks keep a drawn part.
    pub(crate) fn lose_power(&mut self, number: usize) {
        for drive in self.processes[number].drives.values_mut() {
            drive.disk.lose_power(&mut self.rng);
        }
    }

    /// A process dies and starts again later.
    pub(crate) fn crash(&mut self, number: usize, down: Duration) {
        if self.processes[number].node.is_none() {
            return;
        }
        self.trace.event(self.now, &[34, number as u64], || format!("process {number} crashes"));
        self.kill(number);
        let after = self.rng.around(down);
        self.later(after, Event::Start(number));
    }

    fn crash_any(&mut self) {
        let number = self.rng.index(self.processes.len());
        self.crash(number, Duration::from_millis(20));
        self.lose_power(number);
    }

    /// Nothing arrives between a process and another.
    fn sever(&mut self) {
        let (a, b) = (self.rng.index(self.processes.len()), self.rng.index(self.processes.len()));
        let until = self.now + self.rng.around(self.manners.standstill / 2);
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

    fn stall(&mut self) {
        let number = 1 + self.rng.index(self.processes.len() - 1);
        let until = self.now + self.rng.around(self.manners.standstill / 2);
        self.trace
            .event(self.now, &[36, number as u64], || format!("nothing reaches process {number} until {until:?}"));
        self.network.path(number).stalled_until = until;
    }

    fn pause(&mut self) {
        let number = self.rng.index(self.processes.len());
        let until = self.now + self.rng.around(self.manners.standstill / 2);
        self.trace.event(self.now, &[37, number as u64], || format!("process {number} stands still until {until:?}"));
        let process = &mut self.processes[number];
        let since = process.paused_until.max(self.now);
        process.paused_until = until;
        if self.manners.clocks_stop && since < until {
            process.stops.push((since, until));
        }
    }

    fn slow_disk(&mut self) {
        let until = self.now + self.rng.around(Duration::from_millis(50));
        if let Some((number, drive)) = self.draw_drive() {
            drive.slow_until = until;
            self.trace.event(self.now, &[38], || format!("a disk of process {number} is slow until {until:?}"));
        }
    }

    /// As when there are no file descriptors left, or no memory: the one that does the work tries it again until it can
    /// be done.
    fn refuse_disk_work(&mut self) {
        let (kind, until) = (self.rng.index(Operation::KINDS), self.now + self.rng.around(Duration::from_millis(30)));
        if let Some((number, drive)) = self.draw_drive() {
            drive.refuses = Some((kind, until));
            self.trace.event(self.now, &[45, kind as u64], || {
                format!("a disk of process {number} refuses work of kind {kind} until {until:?}")
            });
        }
    }

    fn fail_disk(&mut self) {
        let disks = self.processes.iter().enumerate().flat_map(|(number, process)| {
            process.drives.keys().filter(|_| process.node.is_some()).map(move |role| (number, *role))
        });
        let disks: Vec<_> = disks.collect();
        if disks.is_empty() {
            return;
        }
        let (number, role) = self.rng.pick(&disks);
        self.trace.event(self.now, &[47, number as u64], || format!("a disk of process {number} fails"));
        let process = &mut self.processes[number];
        process.drives.get_mut(&role).expect("just seen").disk.fail(&mut self.rng);
        self.queue.push(self.now, Event::DiskFailed(number, process.life, role));
    }

    fn draw_drive(&mut self) -> Option<(usize, &mut Drive)> {
        let processes = self.processes.iter_mut().enumerate();
        let drives =
            processes.flat_map(|(number, process)| process.drives.values_mut().map(move |drive| (number, drive)));
        let mut drives: Vec<_> = drives.collect();
        (!drives.is_empty()).then(|| drives.swap_remove(self.rng.index(drives.len())))
    }
}
