//! Reads a script's words.

use super::{client, resume};
pub(crate) use crate::words::upstream;
use crate::words::{self, advance, named, page, placement, vector, version};
use bytes::Bytes;
use core::num::NonZeroU32;
use machine::Goodbye;
use messages::{
    Ack, Advance, Arrived, AskOutcome, CommitReply, CommitRequest, Elsewhere, Fetch, GROUP, Grant, Granted, Held,
    Intent, Invalidation, Invalidations, Leader, Leased, LeftOut, Lineage, NoHelp, Outcome, Page, PageReads, PeerPage,
    Reachable, Released, Resumed, Revalidated, SessionLimits, Sync, Synced, ToClient, ToServer, Welcome,
};
use types::{
    ClientId, ClusterId, Delta, GoodbyeReason, Incarnation, Life, NodeId, ObjectPage, PageId, PageRange, PeerKey,
    Refusal, Shard, Sharding, SlotChange, SlotSet, TxnId, Vector, Version,
};

fn pages(words: &[&str]) -> Option<Vec<PageId>> {
    words.iter().filter(|word| !word.contains('=')).map(|word| page(word)).collect()
}

fn number(words: &[&str], name: &str) -> Option<u64> {
    named(words, name).map_or(Some(0), |word| word.parse().ok())
}

/// `m1#4`
fn txn(word: &str) -> Option<TxnId> {
    let (member, number) = word.split_once('#')?;
    words::txn(client(member)?, number)
}

/// `1/3@5`
fn held(word: &str) -> Option<Held> {
    let (of, at) = word.split_once('@')?;
    Some(Held { page: page(of)?, version: version(at)? })
}

/// `0,2`
fn slots(word: &str) -> Option<SlotSet> {
    word.split(',').map(|slot| slot.parse().ok()).collect()
}

/// `1/3{0,2}`
fn some_slots(word: &str) -> Option<(PageId, SlotSet)> {
    let (of, of_it) = word.strip_suffix('}')?.split_once('{')?;
    Some((page(of)?, slots(of_it)?))
}

/// `1/3:4->6{0,2}`, a change by somebody outside of the group.
fn invalidation(word: &str) -> Option<Invalidation> {
    let (moved, of_it) = word.strip_suffix('}')?.split_once('{')?;
    let Advance { page, prev, version } = advance(moved)?;
    let txn = TxnId { client: ClientId(0xD), number: version.0 };
    Some(Invalidation { page, prev, version, slots: slots(of_it)?, txn, data: None })
}

/// `1/3{0=x,2=}`
fn delta(word: &str) -> Option<Delta> {
    let (of, changes) = word.strip_suffix('}')?.split_once('{')?;
    let change = |entry: &str| {
        let (slot, value) = entry.split_once('=')?;
        let value = (!value.is_empty()).then(|| Bytes::from(value.to_owned()));
        Some(SlotChange { slot: slot.parse().ok()?, value })
    };
    Some(Delta { page: page(of)?, changes: changes.split(',').map(change).collect::<Option<_>>()? })
}

fn image(values: &[&str]) -> Option<Bytes> {
    let change = |(slot, word): (u16, &&str)| {
        let value = (*word != "-").then(|| Bytes::from((*word).to_owned()));
        SlotChange { slot, value }
    };
    let changes: Vec<_> = (0..).zip(values).map(change).collect();
    Some(ObjectPage::empty().with(&changes).ok()?.image().clone())
}

/// Of the store: its first, unless the script says another.
fn incarnation(rest: &[&str]) -> Option<Incarnation> {
    Some(Incarnation(named(rest, "incarnation").unwrap_or("1").parse().ok()?))
}

/// The lives of the store's process, as in `a@0,b@90`: the latter began after 90 changes. Most scripts say none.
fn lineage(words: &str) -> Option<Lineage> {
    let life = |word: &str| {
        let (life, began) = word.split_once('@')?;
        Some((Life(u64::from_str_radix(life, 16).ok()?), version(began)?.into()))
    };
    Some(Lineage::new(words.split(',').filter(|word| !word.is_empty()).map(life).collect::<Option<_>>()?))
}

/// A message of the store.
pub(crate) fn of_store(kind: &str, rest: &[&str]) -> Option<ToClient> {
    Some(match (kind, rest) {
        ("welcome", rest) => ToClient::Welcome(Welcome {
            features: GROUP,
            cluster: ClusterId(1),
            node: NodeId(named(rest, "node").unwrap_or("0").parse().ok()?),
            incarnation: incarnation(rest)?,
            lineage: lineage(named(rest, "lineage").unwrap_or_default())?,
            sharding: Sharding::new(named(rest, "shards").unwrap_or("1").parse().ok()?, NonZeroU32::MIN),
            through: vector(named(rest, "through").unwrap_or("0"))?,
            limits: SessionLimits {
                fetches: 64,
                commits: named(rest, "commits").unwrap_or("64").parse().ok()?,
                silence_ms: 30_000,
            },
        }),
        ("placement", rest) => ToClient::Placement(placement(rest)?),
        ("elsewhere", [of]) => ToClient::Elsewhere(Elsewhere { page: page(of)?, number: 0 }),
        ("synced", [number, shards @ ..]) => {
            let shards = shards.iter().map(|shard| shard.parse().ok().map(Shard)).collect::<Option<_>>()?;
            ToClient::Synced(Synced { number: number.parse().ok()?, shards })
        }
        ("resumed", [through, dropped @ ..]) => {
            ToClient::Resumed(Resumed { through: vector(named(&[through], "through")?)?, dropped: pages(dropped)? })
        }
        ("goodbye", ["superseded"]) => {
            ToClient::Goodbye(Goodbye { reason: GoodbyeReason::Superseded, text: "another leads".into() })
        }
        ("leader", rest) => ToClient::Leader(Leader {
            group: "site".into(),
            epoch: number(rest, "epoch")?,
            address: named(rest, "address")?.into(),
        }),
        ("invalidations", [through, items @ ..]) => ToClient::Invalidations(Invalidations {
            through: vector(named(&[through], "through")?)?,
            items: items.iter().map(|word| invalidation(word)).collect::<Option<_>>()?,
        }),
        ("page", [of, at, values @ ..]) => ToClient::Page(Page {
            page: page(of)?,
            version: version(at)?,
            number: 0,
            fresh: true,
            behind: Vec::new(),
            image: image(values)?,
        }),
        ("granted", [first, count]) => {
            let range = PageRange { first: page(first)?, count: count.parse().ok()? };
            ToClient::Granted(Granted { ranges: vec![range] })
        }
        ("cannot_read", [of]) => {
            ToClient::LeftOut(LeftOut { page: page(of)?, number: 0, damage: Some("its checksum is wrong".into()) })
        }
        ("leaves_out", [of]) => ToClient::LeftOut(LeftOut { page: page(of)?, number: 0, damage: None }),
        ("reply", [of, "committed", pages @ ..]) => {
            let pages = pages.iter().map(|word| advance(word)).collect::<Option<_>>()?;
            ToClient::CommitReply(CommitReply { txn: txn(of)?, outcome: Outcome::Committed { pages } })
        }
        ("reply", [of, "unknown"]) => ToClient::CommitReply(CommitReply { txn: txn(of)?, outcome: Outcome::Unknown }),
        ("reply", [of, "lapsed", rest @ ..]) => ToClient::CommitReply(CommitReply {
            txn: txn(of)?,
            outcome: Outcome::Refused(Refusal::Lapsed(incarnation(rest)?)),
        }),
        ("revalidated", [question, rest @ ..]) => ToClient::Revalidated(Revalidated {
            number: question.parse().ok()?,
            items: rest
                .iter()
                .filter(|word| word.contains(':'))
                .map(|word| invalidation(word))
                .collect::<Option<_>>()?,
            dropped: rest.iter().filter(|word| !word.contains(':')).map(|word| page(word)).collect::<Option<_>>()?,
        }),
        ("leased", [sent]) => {
            let nonce = number(&[sent], "sent_ms")? * 1_000_000;
            ToClient::Leased(Leased { nonce, lease_ms: 1000, spaces: vec![1] })
        }
        ("intent", [of, pages @ ..]) => {
            let pages = pages.iter().map(|word| some_slots(word)).collect::<Option<_>>()?;
            ToClient::Intent(Intent { txn: txn(of)?, pages })
        }
        _ => return None,
    })
}

/// A message of a member.
pub(crate) fn of_member(from: ClientId, kind: &str, rest: &[&str]) -> Option<ToServer> {
    Some(match (kind, rest) {
        ("resume", []) => resume(Vector::new(), Vec::new()),
        ("resume", [horizon, pages @ ..]) => {
            let pages = pages.iter().map(|word| held(word)).collect::<Option<_>>()?;
            resume(vector(named(&[horizon], "horizon")?)?, pages)
        }
        ("reachable", [address, key]) => ToServer::Reachable(Reachable {
            address: (*address).into(),
            key: PeerKey::new(u128::from(number(&[key], "key")?).to_le_bytes()),
            eligible: String::new(),
        }),
        ("fetch", rest) => ToServer::Fetch(Fetch {
            pages: pages(rest)?,
            at_least: vector(named(rest, "at_least").unwrap_or("0"))?,
            number: number(rest, "number")?,
            follow: None,
        }),
        ("sync", [number]) => ToServer::Sync(Sync { number: number.parse().ok()? }),
        ("grant", [space, count]) => ToServer::Grant(Grant { space: space.parse().ok()?, count: count.parse().ok()? }),
        ("released", rest) => ToServer::Released(Released { pages: pages(rest)? }),
        ("ack", [through]) => ToServer::Ack(Ack { through: vector(through)? }),
        ("arrived", [of, rest @ ..]) => {
            ToServer::Arrived(Arrived { pages: vec![(page(of)?, number(rest, "number")?)] })
        }
        ("nohelp", [requester, rest @ ..]) => ToServer::NoHelp(NoHelp {
            requester: client(requester)?,
            number: number(rest, "number")?,
            pages: pages(rest)?,
        }),
        ("sends", [requester, of, at, rest @ ..]) => ToServer::PeerPage(PeerPage {
            requester: client(requester)?,
            through: Version::ZERO.into(),
            page: Page {
                page: page(of)?,
                version: version(at)?,
                number: number(rest, "number")?,
                fresh: false,
                behind: Vec::new(),
                image: image(&[])?,
            },
        }),
        ("reads", [own, reads @ ..]) => ToServer::Commit(CommitRequest {
            txn: words::txn(from, own)?,
            incarnation: Incarnation(1),
            answered: 1,
            reads: reads.iter().map(|word| some_reads(word)).collect::<Option<_>>()?,
            writes: Vec::new(),
        }),
        ("ask", [own]) => ToServer::AskOutcome(AskOutcome { txn: words::txn(from, own)? }),
        ("commit", [own, rest @ ..]) => {
            let deltas = rest.iter().filter(|word| word.contains('{')).map(|word| delta(word));
            let writes = deltas.collect::<Option<Vec<_>>>()?;
            let reads = writes.iter().map(|delta| PageReads {
                page: delta.page,
                slots: delta.slots(),
                evidence: Version::ZERO,
                exceptions: Vec::new(),
            });
            let txn = words::txn(from, own)?;
            let (incarnation, reads) = (incarnation(rest)?, reads.collect());
            ToServer::Commit(CommitRequest { txn, incarnation, answered: 1, reads, writes })
        }
        _ => return None,
    })
}

/// `1/3{0,2}@7`
fn some_reads(word: &str) -> Option<PageReads> {
    let (read, evidence) = word.split_once('@')?;
    let (page, slots) = some_slots(read)?;
    Some(PageReads { page, slots, evidence: version(evidence)?, exceptions: Vec::new() })
}
