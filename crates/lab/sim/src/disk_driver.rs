//! The driver of the store's process as far as its disk goes.

use crate::disk::{Operation, Started};
use crate::enumerate::{CrashPoint, UnderWay};
use crate::process::STORE;
use crate::violation::Check;
use crate::world::{Event, World};
use core::time::Duration;
use store::{DiskDone, DiskWork, Record, Store};

impl World {
    pub(crate) fn submit(&mut self, work: DiskWork) -> Check {
        self.disk_operations += 1;
        self.trace.event(self.now, &[13, self.disk_operations], || format!("    disk: {}", describe_work(&work)));
        let started = self.disk.submit(work, &mut self.rng)?;
        self.await_disk(started);
        self.crash_here()
    }

    /// Crashes if a crash was put at this disk operation, or waits for one like it.
    fn crash_here(&mut self) -> Check {
        let is_busy = self.disk.is_installing() || self.disk.unsynced() > 1;
        if self.crash_when_busy && is_busy && self.rng.chance(300) {
            self.crash_when_busy = false;
            return self.crash_store();
        }
        let here = |crash: &CrashPoint| crash.operation <= self.disk_operations;
        if !self.crashes.front().is_some_and(here) {
            return Ok(());
        }
        let crash = self.crashes.pop_front().expect("just seen");
        let under_way = UnderWay { appends: self.disk.unsynced(), install: self.disk.is_installing() };
        if crash.operation == self.disk_operations {
            self.under_way = under_way;
        }
        self.kill_store();
        self.later(Duration::from_millis(1), Event::Start(STORE));
        self.lose_power(crash.appends.min(under_way.appends), crash.install)
    }

    fn await_disk(&mut self, started: Option<Started>) {
        if let Some(started) = started {
            self.later(started.after, Event::Disk(self.processes[STORE].life, started.operation));
        }
    }

    /// The disk has done something; the store learns of it at once, or when it is no longer paused.
    pub(crate) fn finish(&mut self, operation: Operation) -> Check {
        if let Some((kind, until)) = self.disk.refuses
            && kind == operation.kind()
            && self.now < until
        {
            self.queue.push(until, Event::Disk(self.processes[STORE].life, operation));
            return Ok(());
        }
        self.disk_operations += 1;
        let (done, durable, started) = self.disk.finish(operation, &mut self.rng);
        self.await_disk(started);
        self.durable(&durable)?;
        for done in done {
            self.queue.push(self.now, Event::DiskDone(self.processes[STORE].life, done));
        }
        self.crash_here()
    }

    /// Records have become durable: the ledger takes the commits among them.
    pub(crate) fn durable(&mut self, records: &[Record]) -> Check {
        for record in records.iter().filter(|_| self.judged) {
            if let Record::Commit(commit) = record {
                self.history.durable(commit)?;
                let version = self.history.ledger().count();
                self.trace.event(self.now, &[14, version.0], || format!("durable: {:?} is {version:?}", commit.txn));
            }
        }
        Ok(())
    }

    pub(crate) fn disk_done(&mut self, done: DiskDone) -> Check {
        self.trace.event(self.now, &[15], || format!("store hears its disk: {}", describe_done(&done)));
        let now = self.clock(STORE);
        let node = self.processes[STORE].node.as_mut().expect("its disk is of no use to anyone else");
        let store = node.role_of::<Store>().expect("it hosts the store");
        node.tell(now, store, machine::Event::Disk(machine::DiskDone::new(done)));
        self.pump(STORE)
    }
}

fn describe_work(work: &DiskWork) -> String {
    match work {
        DiskWork::Append(position, Record::Commit(commit)) => format!("append {position:?}: commit {:?}", commit.txn),
        DiskWork::Append(position, record) => format!("append {position:?}: {record:?}"),
        DiskWork::Free(position) => format!("free below {position:?}"),
        DiskWork::MakeRoom(bytes) => format!("make room for {bytes} bytes"),
        DiskWork::Read(pages) => format!("read {pages:?}"),
        DiskWork::Install(images, checkpoint) => {
            let pages: Vec<_> = images.iter().map(|image| (image.page, image.version)).collect();
            format!("install {pages:?}, applied {:?}", checkpoint.applied)
        }
    }
}

fn describe_done(done: &DiskDone) -> String {
    match done {
        DiskDone::Pages(pages) => {
            let pages: Vec<_> = pages.iter().map(|(page, home)| (page, home.as_ref().map(|home| home.0))).collect();
            format!("pages {pages:?}")
        }
        other => format!("{other:?}"),
    }
}
