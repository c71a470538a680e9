//! Counts of what was served and what was refused, by reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Ended {
    /// The client said so.
    Disconnected,
    /// The client has closed its end, or the connection broke.
    Closed,
    /// The client gave the handshake up.
    Aborted,
    /// The server was stopped.
    Stopped,
    /// There were as many connections as may be.
    Full,
    /// The handshake was the oldest when there was no room for a newer one.
    Displaced,
    /// The system has no thread for it.
    NoThread,
    /// The handshake took too long.
    Slow,
    /// The client set a flag that was not offered.
    ClientFlags,
    /// An option does not begin as options do: another protocol, or a stream out of step.
    OptionMagic,
    /// A client without the fixed newstyle sent another option than the name of an export.
    NotFixed,
    /// The client sent more options than a handshake may have.
    Options,
    /// There is no export of this name, and the way in which it was asked for has no other answer.
    UnknownExport,
    /// A request does not begin as requests do.
    RequestMagic,
    /// A device panicked.
    Panicked,
}

impl Ended {
    const ALL: [Self; 15] = [
        Self::Disconnected,
        Self::Closed,
        Self::Aborted,
        Self::Stopped,
        Self::Full,
        Self::Displaced,
        Self::NoThread,
        Self::Slow,
        Self::ClientFlags,
        Self::OptionMagic,
        Self::NotFixed,
        Self::Options,
        Self::UnknownExport,
        Self::RequestMagic,
        Self::Panicked,
    ];

    /// The reason in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Closed => "closed",
            Self::Aborted => "aborted",
            Self::Stopped => "stopped",
            Self::Full => "full",
            Self::Displaced => "displaced",
            Self::NoThread => "no_thread",
            Self::Slow => "handshake_slow",
            Self::ClientFlags => "client_flags",
            Self::OptionMagic => "option_magic",
            Self::NotFixed => "not_fixed_newstyle",
            Self::Options => "too_many_options",
            Self::UnknownExport => "unknown_export",
            Self::RequestMagic => "request_magic",
            Self::Panicked => "panicked",
        }
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) given_up: AtomicU64,
    ended: [AtomicU64; Ended::ALL.len()],
}

impl Counters {
    pub(super) fn ended(&self, why: Ended) {
        self.ended[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn tally(&self) -> Tally {
        let ended = Ended::ALL.map(|why| (why, self.ended[why as usize].load(Relaxed)));
        Tally {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            given_up: self.given_up.load(Relaxed),
            ended: ended.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// The counts of a server since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections that were taken.
    pub connections: u64,
    /// Requests that went to a device.
    pub requests: u64,
    /// Requests that made no sense and were answered so.
    pub refused: u64,
    /// Requests that a device did not carry out.
    pub failed: u64,
    /// Requests that were not carried out, as their clients had hung up.
    pub given_up: u64,
    /// Connections that have ended, by reason; reasons that did not occur are left out.
    pub ended: Vec<(Ended, u64)>,
}

impl Tally {
    /// How many connections have ended for a reason.
    pub fn ended(&self, why: Ended) -> u64 {
        self.ended.iter().find(|(other, _)| *other == why).map_or(0, |(_, count)| *count)
    }
}
