//! Takes down everything that happens to a volume, in one order: requests, their answers, and each change of the files
//! of its cache and of its home.

use super::legal::{Done, History, Taken};
use nbd::{Answer, Device, Errno, Geometry, Operation, Replies, Request, Ticket};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use vfs::memory::Memory;

/// A recording, shared by all who take part in it.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Record>>);

/// Everything that has happened so far.
#[derive(Default)]
pub(super) struct Record {
    /// How many things have happened: the time.
    pub(super) time: usize,
    pub(super) history: History,
    /// Each change of a file, and all the files after it.
    pub(super) moments: Vec<Moment>,
    home: Memory,
    cache: Memory,
}

/// The files at a moment, at which the power may fail.
#[derive(Clone)]
pub(super) struct Moment {
    pub(super) time: usize,
    pub(super) home: Memory,
    pub(super) cache: Memory,
}

impl Recorder {
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap()
    }

    /// Watches the files of a home and of a cache from now on.
    pub(super) fn watch(&self, home: &Memory, cache: &Memory) {
        {
            let mut record = self.record();
            (record.home, record.cache) = (home.after_kill(), cache.after_kill());
        }
        let (of_home, of_cache) = (self.clone(), self.clone());
        home.watch(move |now| of_home.changed(|record| record.home = now));
        cache.watch(move |now| of_cache.changed(|record| record.cache = now));
    }

    fn changed(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        change(&mut record);
        record.time += 1;
        let moment = Moment { time: record.time, home: record.home.clone(), cache: record.cache.clone() };
        record.moments.push(moment);
    }

    /// Something happens that is no change of a file; gives its time.
    pub(super) fn tick(&self) -> usize {
        let mut record = self.record();
        record.time += 1;
        record.time
    }

    /// A device whose requests and answers are taken down.
    pub(super) fn device(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(Recorded { device, recorder: self.clone() })
    }
}

struct Recorded {
    device: Arc<dyn Device>,
    recorder: Recorder,
}

impl Device for Recorded {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        let mut tickets = HashMap::new();
        {
            let mut record = self.recorder.record();
            for (key, Request { ticket, operation }) in (0..).zip(batch.iter_mut()) {
                record.time += 1;
                let time = record.time;
                let number = taken(operation).map(|taken| record.history.asked(taken, time));
                tickets.insert(key, (std::mem::replace(&mut ticket.cookie, key), number));
            }
        }
        let replies = RecordedReplies { replies: replies.clone(), recorder: self.recorder.clone(), tickets };
        let replies: Arc<dyn Replies> = Arc::new(replies);
        self.device.submit(batch, &replies);
    }
}

/// The part of a request that matters for what a disk has; reads do not.
fn taken(operation: &Operation) -> Option<Taken> {
    match operation {
        Operation::Write { offset, data, fua } => Some(Taken::write(*offset, data.clone(), *fua)),
        Operation::Zero { offset, len, fua, .. } => Some(Taken::zeros(*offset, *len, *fua)),
        Operation::Trim { offset, len, fua } => Some(Taken::trim(*offset, *len, *fua)),
        Operation::Flush => Some(Taken::Flush),
        Operation::Read { .. } | Operation::Cache { .. } | Operation::Extents { .. } => None,
    }
}

struct RecordedReplies {
    replies: Arc<dyn Replies>,
    recorder: Recorder,
    /// The client's own cookies, and the numbers of requests in the record.
    tickets: HashMap<u64, (u64, Option<usize>)>,
}

impl Replies for RecordedReplies {
    fn done(&self, ticket: Ticket, outcome: Result<Answer, Errno>) {
        let (cookie, number) = self.tickets[&ticket.cookie];
        if let Some(number) = number {
            let mut record = self.recorder.record();
            record.time += 1;
            let (time, done) = (record.time, if outcome.is_ok() { Done::Yes } else { Done::Refused });
            record.history.answered(number, time, done);
        }
        // The record has it before the client has.
        self.replies.done(Ticket { cookie, ..ticket }, outcome);
    }

    fn send(&self) {
        self.replies.send();
    }

    fn stalls(&self) {
        self.replies.stalls();
    }
}
