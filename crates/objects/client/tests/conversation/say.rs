//! Writes down what a client says.

use client::{Read, Stats, TxnError};
use messages::{CommitRequest, Outcome, Page, PageReads, PeerPage, ToPeer, ToServer};
use std::fmt::{Debug, Display};
use types::{Delta, Incarnation, PeerKey, Refusal, SlotSet, TxnId};

fn join<T: Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

fn slots(slots: &SlotSet) -> String {
    join(slots.iter(), ",")
}

/// A long value says how long it is.
fn value(value: &[u8]) -> String {
    match value.len() {
        0..=40 => String::from_utf8_lossy(value).into_owned(),
        len => format!("({len} bytes)"),
    }
}

pub(crate) fn read(read: Result<Read<'_>, TxnError>) -> String {
    match read {
        Ok(Read::Value(bytes)) => format!("Value {}", value(bytes)),
        other => result(other),
    }
}

pub(crate) fn result<T: Debug>(result: Result<T, TxnError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error {error:?}"),
    }
}

pub(crate) fn outcome(outcome: Result<Option<Outcome>, TxnError>) -> String {
    match outcome {
        Ok(None) => "not yet".into(),
        Ok(Some(Outcome::Committed { .. })) => "Committed".into(),
        Ok(Some(Outcome::Refused(Refusal::Stale(pages)))) => {
            format!("Stale {}", join(pages.iter().map(|(page, stale)| format!("{page}{{{}}}", slots(stale))), " "))
        }
        Ok(Some(other)) => format!("{other:?}"),
        Err(error) => format!("error {error:?}"),
    }
}

fn reads(reads: &PageReads) -> String {
    let exceptions = reads.exceptions.iter().map(|(slot, version)| format!(" {slot}@{version}"));
    format!("{}{{{}}}@{}{}", reads.page, slots(&reads.slots), reads.evidence, join(exceptions, ""))
}

fn delta(delta: &Delta) -> String {
    let change = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(String::new(), |bytes| value(bytes));
    let changes = delta.changes.iter().map(|c| format!("{}={}", c.slot, change(&c.value)));
    format!("{}{{{}}}", delta.page, join(changes, ","))
}

/// `4`, or `4@1` if node 1 coordinates it.
fn number(txn: TxnId) -> String {
    let text = format!("{txn:?}");
    text.split_once('#').map_or(String::new(), |(_, number)| number.into())
}

fn commit(request: &CommitRequest) -> String {
    let CommitRequest { txn, incarnation, answered, reads: read, writes } = request;
    // The store's first goes without saying.
    let incarnation =
        if *incarnation == Incarnation(1) { String::new() } else { format!(" incarnation={}", incarnation.0) };
    let (read, written) = (join(read.iter().map(reads), " "), join(writes.iter().map(delta), " "));
    let answered = number(TxnId { number: *answered, ..*txn });
    let text = format!("Commit {}{incarnation} answered={answered} reads {read} writes {written}", number(*txn));
    text.trim_end().to_owned()
}

fn key(key: PeerKey) -> u128 {
    u128::from_le_bytes(key.bytes())
}

/// A message of the client for its store or redirector.
pub(crate) fn to_server(message: &ToServer) -> String {
    match message {
        ToServer::Hello(hello) => {
            format!("Hello epoch={} cluster={:?}", hello.epoch, hello.cluster.map(|cluster| cluster.0))
        }
        ToServer::Resume(resume) => {
            let pages = join(resume.pages.iter().map(|held| format!(" {}@{}", held.page, held.version)), "");
            let grants = join(resume.grants.iter().map(|range| format!(" {}+{}", range.first, range.count)), "");
            let missed = if resume.missed > 0 { format!(" missed={}", resume.missed) } else { String::new() };
            format!("Resume horizon={} pages{pages} grants{grants} last={}{missed}", resume.horizon, resume.last)
        }
        ToServer::Fetch(fetch) => {
            let follow = fetch.follow.map(|follow| format!(" follow=.{}+{}", follow.slot, follow.bytes));
            let (pages, at_least) = (join(&fetch.pages, " "), &fetch.at_least);
            format!("Fetch {pages} at_least={at_least}{}", follow.unwrap_or_default())
        }
        ToServer::Released(released) => format!("Released {}", join(&released.pages, " ")),
        ToServer::Commit(request) => commit(request),
        ToServer::AskOutcome(ask) => format!("AskOutcome {}", number(ask.txn)),
        ToServer::Ack(ack) => format!("Ack through={}", ack.through),
        ToServer::Sync(sync) => format!("Sync {}", sync.number),
        ToServer::Grant(grant) => format!("Grant space={} count={}", grant.space, grant.count),
        ToServer::Reachable(m) => {
            format!("Reachable at={:?} key={} eligible={:?}", m.address, key(m.key), m.eligible)
        }
        ToServer::NoHelp(m) => format!("NoHelp m{} number={} {}", m.requester.0, m.number, join(&m.pages, " ")),
        ToServer::PeerPage(m) => peer_page(m),
        ToServer::Arrived(m) => {
            format!("Arrived {}", join(m.pages.iter().map(|(page, number)| format!("{page} number={number}")), " "))
        }
        ToServer::FindLeader(_) => "FindLeader".into(),
        other => format!("{other:?}"),
    }
}

/// A message of the client for a peer.
pub(crate) fn to_peer(message: &ToPeer) -> String {
    match message {
        ToPeer::PeerHello(m) => format!("PeerHello m{} key={}", m.client.0, key(m.key)),
        ToPeer::PeerPage(m) => peer_page(m),
        ToPeer::Goodbye(_) => format!("{message:?}"),
    }
}

fn peer_page(m: &PeerPage) -> String {
    let Page { page, version, number, .. } = &m.page;
    format!("PeerPage m{} {page} {version} number={number} through={}", m.requester.0, m.through)
}

pub(crate) fn stats(stats: &Stats) -> String {
    let Stats { hits, misses, fetches, pages_fetched, pages_prefetched, prefetch_hits, .. } = stats;
    format!(
        "{hits} hits, {misses} misses, {fetches} fetches, {pages_fetched} pages, {pages_prefetched} of them prefetched, \
         {prefetch_hits} of these read\n"
    )
}
