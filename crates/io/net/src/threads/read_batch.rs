//! Receives from all links that something has arrived from, and does what comes of it.

use crate::host::core::Core;
use crate::host::flush::Flush;
use crate::host::link::Link;
use crate::transport::receiver::Receiving;
use machine::Event;
use std::sync::Arc;

/// A thread's read buffer, in bytes: many requests, or several pages of a prefetch. A larger message is received
/// in place.
const BUFFER_BYTES: usize = 64 * 1024;

/// How often a thread looks whether more has arrived from where it has just received, before it continues.
const ROUNDS_MAX: usize = 4;

/// The means of a thread to receive.
#[derive(Debug)]
pub(crate) struct ReadBatch {
    buffer: Box<[u8]>,
    events: Vec<Event>,
}

impl ReadBatch {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into(), events: Vec::new() }
    }

    /// Receives what has arrived, and does everything that comes of it. `away` gives what should be held while the
    /// thread waits for a disk.
    pub(crate) fn take<T>(&mut self, links: &[Arc<Link>], away: impl Fn() -> T) {
        for of_one in links.chunk_by(|a, b| a.core().ptr_eq(b.core()) && a.id().role == b.id().role) {
            // Links end with their host, and have learned of it.
            let Some(core) = of_one[0].core().upgrade() else { continue };
            let done = core.contain(|| core.lead_as_reader(self.give(&core, of_one), &away));
            if done.is_none() {
                // They were for a host that has ended.
                self.events.clear();
            }
        }
    }

    /// Returns a machine what has arrived from several of its links at once: one lock, one flush of the log, one write
    /// to each socket for all of it. The flush is the caller's to lead.
    pub(crate) fn give(&mut self, core: &Core, links: &[Arc<Link>]) -> Flush {
        let mut flush = Flush::default();
        for _ in 0..ROUNDS_MAX {
            let mut received = Vec::new();
            for link in links {
                received.extend(link.receive(core, &mut self.buffer, &mut self.events));
            }
            if received.is_empty() {
                return flush;
            }
            flush = flush.and(core.drive(links[0].id().role, self.events.drain(..)));
            for link in links {
                link.handled();
            }
            received.into_iter().for_each(Receiving::done);
        }
        // The others have their turn.
        let waiting = links.iter().filter(|link| link.connection().is_waiting());
        waiting.for_each(|link| link.connection().socket().tell_again());
        flush
    }
}
