//! How often what happened.

use crate::activity::Overdue;
use crate::dropped_fields::DroppedFields;
use crate::handshake::HandshakeFailure;
use crate::refusal::Refusal;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) from_disk: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) dropped_fields: DroppedFields,
    pub(crate) refused_connections: AtomicU64,
    overdue: [AtomicU64; Overdue::COUNT],
    handshakes: [AtomicU64; HandshakeFailure::ALL.len()],
    refusals: [AtomicU64; Refusal::ALL.len()],
}

impl Counters {
    pub(crate) fn refused(&self, refusal: Refusal) {
        self.refusals[refusal as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, overdue: Overdue) {
        self.overdue[overdue as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn handshake_failed(&self, failure: HandshakeFailure) {
        self.handshakes[failure as usize].fetch_add(1, Relaxed);
    }

    /// The counts now.
    pub(crate) fn read(&self) -> Tally {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let by_name = |names: &[&'static str], counts: &[AtomicU64]| {
            let counted = names.iter().copied().zip(counts.iter().map(count));
            counted.filter(|&(_, count)| count > 0).collect()
        };
        Tally {
            connections: count(&self.connections),
            requests: count(&self.requests),
            hits: count(&self.hits),
            from_disk: count(&self.from_disk),
            waited: count(&self.waited),
            ended_idle: count(&self.overdue[Overdue::Idle as usize]),
            ended_in_head: count(&self.overdue[Overdue::Head as usize]),
            ended_stalled: count(&self.overdue[Overdue::Stalled as usize]),
            ended_displaced: count(&self.overdue[Overdue::Displaced as usize]),
            refused_connections: count(&self.refused_connections),
            failed_handshakes: by_name(&HandshakeFailure::ALL.map(HandshakeFailure::name), &self.handshakes),
            dropped_fields: self.dropped_fields.read(),
            refusals: by_name(&Refusal::ALL.map(Refusal::name), &self.refusals),
        }
    }
}

/// The counts of a proxy since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections of clients.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that a stored response answered without the origin.
    pub hits: u64,
    /// Requests for which a stored response was read from disk.
    pub from_disk: u64,
    /// How often a request has waited, or does, for the response to another one for the same.
    pub waited: u64,
    /// Connections that were ended because no request came.
    pub ended_idle: u64,
    /// Connections that were ended in the middle of a request's head.
    pub ended_in_head: u64,
    /// Connections that were ended because the client did not read.
    pub ended_stalled: u64,
    /// Idle connections that were ended to make room for others.
    pub ended_displaced: u64,
    /// Connections that were refused because their address had as many as it may have.
    pub refused_connections: u64,
    /// TLS handshakes of clients that came to nothing, by the name of the reason.
    pub failed_handshakes: Vec<(&'static str, u64)>,
    /// Request fields that were dropped because an application must not believe them, by name.
    pub dropped_fields: Vec<(String, u64)>,
    /// Requests that the proxy answered with an error of its own, by its name.
    pub refusals: Vec<(&'static str, u64)>,
}
