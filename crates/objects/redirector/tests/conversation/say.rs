//! Writes down what a redirector says.

use messages::{Invalidation, Outcome, SEVERAL, ToClient, ToServer};
use std::fmt::Display;
use types::{Incarnation, Refusal, SlotSet};

fn join<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().fold(String::new(), |words, item| words + " " + &item.to_string())
}

fn slots(slots: &SlotSet) -> String {
    slots.iter().map(|slot| slot.to_string()).collect::<Vec<_>>().join(",")
}

fn invalidation(invalidation: &Invalidation) -> String {
    let Invalidation { page, prev, version, .. } = invalidation;
    let changes = invalidation.data.as_ref().map(|data| {
        let change =
            |bytes: &Option<bytes::Bytes>| String::from_utf8_lossy(bytes.as_deref().unwrap_or(b"")).into_owned();
        data.iter().map(|c| format!("{}={}", c.slot, change(&c.value))).collect::<Vec<_>>().join(",")
    });
    format!("{page}:{prev}->{version}{{{}}}", changes.unwrap_or_else(|| slots(&invalidation.slots)))
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { pages } => {
            format!("committed{}", join(pages.iter().map(|a| format!("{}:{}->{}", a.page, a.prev, a.version))))
        }
        Outcome::Refused(Refusal::Stale(pages)) => {
            format!("stale{}", join(pages.iter().map(|(page, stale)| format!("{page}{{{}}}", slots(stale)))))
        }
        other => format!("{other:?}"),
    }
}

/// The store's first goes without saying.
fn incarnation(Incarnation(number): Incarnation) -> String {
    if number == 1 { String::new() } else { format!(" incarnation={number}") }
}

/// A message of the redirector for a member.
pub(crate) fn to_member(message: &ToClient) -> String {
    match message {
        ToClient::Welcome(m) => {
            let node = if m.features & SEVERAL == 0 { String::new() } else { format!(" node={}", m.node.0) };
            format!("Welcome features={}{node} through={}{}", m.features, m.through, incarnation(m.incarnation))
        }
        ToClient::Goodbye(m) => format!("Goodbye {}: {}", m.reason.name(), m.text),
        ToClient::Resumed(m) => format!("Resumed through={} dropped{}", m.through, join(&m.dropped)),
        ToClient::Ping(_) => "Ping".into(),
        ToClient::Pong(_) => "Pong".into(),
        ToClient::Page(m) => {
            format!("Page {} {} number={}{}", m.page, m.version, m.number, if m.fresh { " fresh" } else { "" })
        }
        ToClient::LeftOut(m) => {
            let damage = m.damage.as_ref().map_or_else(String::new, |why| format!(" damage='{why}'"));
            format!("LeftOut {} number={}{damage}", m.page, m.number)
        }
        ToClient::CommitReply(m) => format!("CommitReply {:?} {}", m.txn, outcome(&m.outcome)),
        ToClient::Invalidations(m) => {
            format!("Invalidations through={}{}", m.through, join(m.items.iter().map(invalidation)))
        }
        ToClient::Synced(m) => format!("Synced {}{}", m.number, join(m.shards.iter().map(|shard| shard.0))),
        ToClient::Granted(m) => {
            format!("Granted{}", join(m.ranges.iter().map(|range| format!("{}+{}", range.first, range.count))))
        }
        ToClient::Help(m) => format!(
            "Help m{} number={} through={} at={:?} key={}{}",
            m.requester.0,
            m.number,
            m.through,
            m.address,
            u128::from_le_bytes(m.key.bytes()),
            join(&m.pages)
        ),
        ToClient::PeerPage(m) => format!("PeerPage {} {} number={}", m.page.page, m.page.version, m.page.number),
        ToClient::Leader(m) => format!("Leader epoch={} address={}", m.epoch, m.address),
        ToClient::Members(m) => format!("Members epoch={}{}", m.epoch, join(m.members.iter().map(|m| m.client.0))),
        other => format!("{other:?}"),
    }
}

/// A message of the redirector for its store.
pub(crate) fn to_store(message: &ToServer) -> String {
    match message {
        ToServer::Hello(m) => format!("Hello features={} epoch={}", m.features, m.epoch),
        ToServer::Resume(m) => {
            let pages = join(m.pages.iter().map(|h| format!("{}@{}", h.page, h.version)));
            let grants = join(m.grants.iter().map(|range| format!("{}+{}", range.first, range.count)));
            let missed = if m.missed > 0 { format!(" missed={}", m.missed) } else { String::new() };
            format!("Resume horizon={}{pages}{grants}{missed}", m.horizon)
        }
        ToServer::Ping(_) => "Ping".into(),
        ToServer::Pong(_) => "Pong".into(),
        ToServer::Fetch(m) => format!("Fetch{} at_least={}", join(&m.pages), m.at_least),
        ToServer::Released(m) => format!("Released{}", join(&m.pages)),
        ToServer::Commit(m) => format!("Commit {:?}{}", m.txn, incarnation(m.incarnation)),
        ToServer::AskOutcome(m) => format!("AskOutcome {:?}", m.txn),
        ToServer::Ack(m) => format!("Ack through={}", m.through),
        ToServer::Sync(m) => format!("Sync {}", m.number),
        ToServer::Grant(m) => format!("Grant space={} count={}", m.space, m.count),
        ToServer::Revalidate(m) => format!(
            "Revalidate {} horizon={}{}",
            m.number,
            m.horizon,
            join(m.pages.iter().map(|h| format!("{}@{}", h.page, h.version)))
        ),
        ToServer::Lead(m) => format!("Lead epoch={} address={}", m.epoch, m.address),
        ToServer::FindLeader(_) => "FindLeader".into(),
        ToServer::Promise(m) => format!("Promise {:?}", m.txn),
        other => format!("{other:?}"),
    }
}
