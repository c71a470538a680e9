//! What a thread does with the connections that something has arrived from.

use crate::connection::{Connection, Incoming, Receiving};
use crate::host::Host;
use std::sync::Arc;

/// A thread's read buffer, in bytes: many requests, or several pages of a prefetch. What is larger is received in
/// place.
const BUFFER_BYTES: usize = 64 * 1024;

/// How often a thread looks whether more has arrived from where it has just received, before it goes on.
const ROUNDS_MAX: usize = 4;

/// What a thread needs to receive.
#[derive(Debug)]
pub(crate) struct Turn {
    buffer: Box<[u8]>,
    incoming: Vec<Incoming>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into(), incoming: Vec::new() }
    }

    /// Receives what has arrived, and does all that comes of it.
    pub(crate) fn take(&mut self, connections: &[Arc<Connection>]) {
        for of_one_host in connections.chunk_by(|a, b| a.host().ptr_eq(b.host())) {
            // Connections end with their host, and have heard of it.
            let Some(host) = of_one_host[0].host().upgrade() else { continue };
            let done = host.contain(|| {
                if self.give(&host, of_one_host) {
                    host.lead_as_reader();
                }
            });
            if done.is_none() {
                // What a host that has ended was about to be given.
                self.incoming.clear();
            }
        }
    }

    /// Gives the node what has arrived from several connections at once: one lock, one flush of the log, one write to
    /// each socket for all of it. Says whether the caller is to lead the flush.
    pub(crate) fn give(&mut self, host: &Host, connections: &[Arc<Connection>]) -> bool {
        let mut lead = false;
        for _ in 0..ROUNDS_MAX {
            let mut received = Vec::new();
            for connection in connections {
                received.extend(connection.receive(host, &mut self.buffer, &mut self.incoming));
            }
            if received.is_empty() {
                return lead;
            }
            lead |= host.received(&mut self.incoming);
            received.into_iter().for_each(Receiving::done);
        }
        // The others have their turn.
        let waiting = connections.iter().filter(|connection| connection.is_waiting());
        waiting.for_each(|connection| connection.socket().tell_again());
        lead
    }
}
