//! The record of a run, as a hash always and as text when someone wants to read it.

use crate::network::End;
use core::fmt::{Debug, Display};
use machine::Parcel;
use messages::{CommitRequest, Outcome, Page, PeerPage, ToClient, ToPeer, ToServer};
use types::{SessionId, Time, Vector};

/// The trace of one run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    /// Nothing is recorded.
    is_off: bool,
}

impl Trace {
    pub(crate) fn new(readable: bool) -> Self {
        Self { hash: 0, lines: readable.then(Vec::new), is_off: false }
    }

    /// The trace of a run that nobody asks for it.
    pub(crate) fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// Something happened at `now`: `numbers` go into the hash, `text` is only made if it is read.
    pub(crate) fn event<T: Display>(&mut self, now: Time, numbers: &[u64], text: impl FnOnce() -> T) {
        self.hash = numbers.iter().fold(mix(self.hash, now.0), |hash, &number| mix(hash, number));
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>12.6} ms  {}", now.0 as f64 / 1e6, text()));
        }
    }

    /// A message was sent to one end of a connection.
    pub(crate) fn sent(&mut self, now: Time, id: SessionId, to: End, message: &Parcel) {
        if !self.is_off {
            self.event(now, &digest(message), || format!("    s{} to {to:?}: {}", id.0, describe(message)));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// One step of a hash that depends on order.
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.rotate_left(29) ^ (mixed >> 32)
}

/// The numbers by which two runs can tell a message from another one.
fn digest(message: &Parcel) -> [u64; 3] {
    let server = message.get().map(digest_to_server);
    let client = || message.get().map(digest_to_client);
    let peer = || message.get().map(digest_to_peer);
    // A message of any other family is told by its text.
    let other = || [0, format!("{message:?}").bytes().fold(0, |hash, byte| mix(hash, byte.into())), 0];
    server.or_else(client).or_else(peer).unwrap_or_else(other)
}

/// The counts of all shards as one number.
fn count(vector: &Vector) -> u64 {
    vector.total()
}

fn digest_to_server(message: &ToServer) -> [u64; 3] {
    match message {
        ToServer::Hello(m) => [1, m.client.0, m.epoch],
        ToServer::Goodbye(m) => [3, m.reason as u64, 0],
        ToServer::Resume(m) => [4, count(&m.horizon), m.pages.len() as u64],
        ToServer::Ping(m) => [6, m.nonce, 0],
        ToServer::Pong(m) => [7, m.nonce, 0],
        ToServer::Fetch(m) => [8, m.pages.first().map_or(0, |page| page.to_bits()), m.pages.len() as u64],
        ToServer::Released(m) => [11, m.pages.first().map_or(0, |page| page.to_bits()), m.pages.len() as u64],
        ToServer::Commit(m) => [12, m.txn.number, (m.reads.len() << 32 | m.writes.len()) as u64],
        ToServer::AskOutcome(m) => [13, m.txn.number, 0],
        ToServer::Ack(m) => [16, count(&m.through), 0],
        ToServer::Grant(m) => [17, u64::from(m.count), 0],
        ToServer::Reachable(m) => [19, m.address.len() as u64, m.eligible.len() as u64],
        ToServer::NoHelp(m) => [21, m.requester.0 ^ m.number << 32, m.pages.len() as u64],
        ToServer::PeerPage(m) => [22, m.page.page.to_bits(), m.page.version.0],
        ToServer::Arrived(m) => [23, m.pages.first().map_or(0, |(page, _)| page.to_bits()), m.pages.len() as u64],
        ToServer::Revalidate(m) => [25, m.number, m.pages.len() as u64],
        ToServer::Departed(m) => [27, m.client.0, 0],
        ToServer::Lead(m) => [28, m.epoch, 0],
        ToServer::FindLeader(_) => [29, 0, 0],
        ToServer::Promise(m) => [34, m.txn.client.0 ^ m.txn.number << 32, 0],
        ToServer::Sync(m) => [48, m.number, 0],
    }
}

/// The same of what a client hears.
pub(crate) fn digest_to_client(message: &ToClient) -> [u64; 3] {
    match message {
        ToClient::Welcome(m) => [2, m.incarnation.0, count(&m.through)],
        ToClient::Goodbye(m) => [3, m.reason as u64, 0],
        ToClient::Resumed(m) => [5, count(&m.through), m.dropped.len() as u64],
        ToClient::Ping(m) => [6, m.nonce, 0],
        ToClient::Pong(m) => [7, m.nonce, 0],
        ToClient::Page(m) => [9, m.page.to_bits(), m.version.0],
        ToClient::LeftOut(m) => [10, m.page.to_bits(), 0],
        ToClient::Placement(m) => [40, m.nodes.len() as u64, m.shards.len() as u64],
        ToClient::Elsewhere(m) => [41, m.page.to_bits(), m.number],
        ToClient::CommitReply(m) => [14, m.txn.number, outcome_digest(&m.outcome)],
        ToClient::Invalidations(m) => [15, count(&m.through), m.items.len() as u64],
        ToClient::Granted(m) => [18, m.ranges.first().map_or(0, |range| range.first.to_bits()), m.ranges.len() as u64],
        ToClient::Help(m) => [20, m.requester.0 ^ m.number << 32, m.pages.len() as u64],
        ToClient::PeerPage(m) => [22, m.page.page.to_bits(), m.page.version.0],
        ToClient::Revalidated(m) => [26, m.number, (m.items.len() << 32 | m.dropped.len()) as u64],
        ToClient::Leader(m) => [30, m.epoch, 0],
        ToClient::Members(m) => [31, m.epoch, m.members.len() as u64],
        ToClient::Leased(m) => [32, m.nonce, u64::from(m.lease_ms)],
        ToClient::Intent(m) => [33, m.txn.client.0 ^ m.txn.number << 32, m.pages.len() as u64],
        ToClient::Abandoned(m) => [42, m.txn.client.0 ^ m.txn.number << 32, 0],
        ToClient::Synced(m) => [49, m.number, m.shards.len() as u64],
    }
}

fn digest_to_peer(message: &ToPeer) -> [u64; 3] {
    match message {
        ToPeer::Goodbye(m) => [3, m.reason as u64, 0],
        ToPeer::PeerPage(m) => [22, m.page.page.to_bits(), m.page.version.0],
        ToPeer::PeerHello(m) => [24, m.client.0, 0],
    }
}

fn outcome_digest(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Committed { pages } => pages.first().map_or(0, |advance| advance.version.0),
        Outcome::Refused(refusal) => u64::MAX - refusal.name().len() as u64,
        Outcome::Unknown => u64::MAX,
    }
}

/// A message as one short line: what a page holds is told by its version.
pub(crate) fn describe(message: &Parcel) -> String {
    let server = message.get().map(|message| match message {
        ToServer::Commit(request) => describe_commit(request),
        ToServer::PeerPage(page) => describe_peer_page(page),
        other => cut(other),
    });
    let client = || message.get().map(describe_to_client);
    server.or_else(client).unwrap_or_else(|| match message.get() {
        Some(ToPeer::PeerPage(page)) => describe_peer_page(page),
        _ => cut(message),
    })
}

/// The same of what a client hears.
pub(crate) fn describe_to_client(message: &ToClient) -> String {
    match message {
        ToClient::Page(page) => describe_page(page),
        ToClient::PeerPage(page) => describe_peer_page(page),
        other => cut(other),
    }
}

fn describe_page(m: &Page) -> String {
    format!("Page({:?} {:?}, {} bytes, behind it {:?})", m.page, m.version, m.image.len(), m.behind)
}

fn describe_peer_page(m: &PeerPage) -> String {
    format!(
        "PeerPage({:?} {:?} for {:?} fetch {}, through {:?})",
        m.page.page, m.page.version, m.requester, m.page.number, m.through
    )
}

fn describe_commit(m: &CommitRequest) -> String {
    let reads: Vec<_> = m.reads.iter().map(|r| (r.page, &r.slots, r.evidence)).collect();
    let writes: Vec<_> = m.writes.iter().map(|w| (w.page, w.slots())).collect();
    format!("Commit({:?}, reads {reads:?}, writes {writes:?})", m.txn)
}

/// The beginning of a long message.
pub(crate) fn cut(message: &impl Debug) -> String {
    let mut text = format!("{message:?}");
    text.truncate(text.char_indices().nth(400).map_or(text.len(), |(at, _)| at));
    text
}
