//! How often what happened.

use crate::operate::answers::Answers;
use crate::operate::dropped_fields::DroppedFields;
use crate::request::refusal::Refusal;
use http::StatusCode;
use responses::ForwardReason;
use serving::{HandshakeFailure, Overdue};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counts since the start of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) from_disk: AtomicU64,
    pub(crate) waited: AtomicU64,
    /// Changes whose names could not be read: everything was invalidated.
    pub(crate) changes_misread: AtomicU64,
    /// Responses that are not stored, by the name of the reason, of which there are a fixed few.
    not_stored: Mutex<BTreeMap<&'static str, u64>>,
    /// Requests to the origin, by the reason for which it was asked.
    forwarded: [AtomicU64; ForwardReason::ALL.len()],
    /// Requests that the origin has not answered, or with a status of an error of its own, by the name of the reason.
    origin_errors: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) answers: Answers,
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

    pub(crate) fn not_stored(&self, reason: &'static str) {
        *self.not_stored.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += 1;
    }

    /// The origin was asked, and this came of it.
    pub(crate) fn forwarded(&self, reason: ForwardReason, outcome: Result<StatusCode, Refusal>) {
        if let Some(at) = ForwardReason::ALL.iter().position(|other| *other == reason) {
            self.forwarded[at].fetch_add(1, Relaxed);
        }
        let error = match outcome {
            Ok(status) => status.is_server_error().then_some("status-5xx"),
            Err(Refusal::RequestBody) => None,
            Err(refusal) => Some(refusal.name()),
        };
        if let Some(name) = error {
            *self.origin_errors.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
        }
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
            changes_misread: count(&self.changes_misread),
            not_stored: all(&self.not_stored),
            forwarded: by_name(&ForwardReason::ALL.map(ForwardReason::name), &self.forwarded),
            origin_errors: all(&self.origin_errors),
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

fn all(counts: &Mutex<BTreeMap<&'static str, u64>>) -> Vec<(&'static str, u64)> {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.iter().map(|(name, count)| (*name, *count)).collect()
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
    /// Changes that the origin has made and named in a way that could not be read. Everything was invalidated for each.
    pub changes_misread: u64,
    /// Responses that were not stored, by the name of the reason.
    pub not_stored: Vec<(&'static str, u64)>,
    /// Requests for which the origin was asked, by the reason: the values of `fwd` in `Cache-Status`.
    pub forwarded: Vec<(&'static str, u64)>,
    /// Requests that the origin has not answered, or with a status of 500 and more, by the name of the reason.
    pub origin_errors: Vec<(&'static str, u64)>,
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
