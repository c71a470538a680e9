//! Writes down what a redirector says.

use protocol::{Message, Notice, Outcome};
use std::fmt::Display;
use types::{Incarnation, Refusal, SlotSet};

fn join<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().fold(String::new(), |words, item| words + " " + &item.to_string())
}

fn slots(slots: &SlotSet) -> String {
    slots.iter().map(|slot| slot.to_string()).collect::<Vec<_>>().join(",")
}

fn notice(notice: &Notice) -> String {
    let Notice { page, prev, version, .. } = notice;
    let changes = notice.data.as_ref().map(|data| {
        let change =
            |bytes: &Option<bytes::Bytes>| String::from_utf8_lossy(bytes.as_deref().unwrap_or(b"")).into_owned();
        data.iter().map(|c| format!("{}={}", c.slot, change(&c.value))).collect::<Vec<_>>().join(",")
    });
    format!("{page}:{prev}->{version}{{{}}}", changes.unwrap_or_else(|| slots(&notice.slots)))
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

/// A message of the redirector.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Hello(m) => format!("Hello features={} epoch={}", m.features, m.epoch),
        Message::Welcome(m) => {
            format!("Welcome features={} through={}{}", m.features, m.through, incarnation(m.incarnation))
        }
        Message::Goodbye(m) => format!("Goodbye {}: {}", m.reason.name(), m.text),
        Message::Rejoin(m) => {
            let pages = join(m.pages.iter().map(|h| format!("{}@{}", h.page, h.version)));
            let grants = join(m.grants.iter().map(|range| format!("{}+{}", range.first, range.count)));
            format!("Rejoin horizon={}{pages}{grants}", m.horizon)
        }
        Message::Rejoined(m) => format!("Rejoined through={} dropped{}", m.through, join(&m.dropped)),
        Message::Ping(_) => "Ping".into(),
        Message::Pong(_) => "Pong".into(),
        Message::Fetch(m) => format!("Fetch{} at_least={}", join(&m.pages), m.at_least),
        Message::Page(m) => {
            format!("Page {} {} number={}{}", m.page, m.version, m.number, if m.fresh { " fresh" } else { "" })
        }
        Message::LeftOut(m) => format!("LeftOut {} number={}", m.page, m.number),
        Message::Released(m) => format!("Released{}", join(&m.pages)),
        Message::Commit(m) => format!("Commit {:?}{}", m.txn, incarnation(m.incarnation)),
        Message::AskOutcome(m) => format!("AskOutcome {:?}", m.txn),
        Message::CommitReply(m) => format!("CommitReply {:?} {}", m.txn, outcome(&m.outcome)),
        Message::Notices(m) => format!("Notices through={}{}", m.through, join(m.items.iter().map(notice))),
        Message::Ack(m) => format!("Ack through={}", m.through),
        Message::Grant(m) => format!("Grant space={} count={}", m.space, m.count),
        Message::Granted(m) => {
            format!("Granted{}", join(m.ranges.iter().map(|range| format!("{}+{}", range.first, range.count))))
        }
        Message::Help(m) => format!(
            "Help m{} number={} through={} at={:?} key={}{}",
            m.requester.0,
            m.number,
            m.through,
            m.address,
            u128::from_le_bytes(m.key.bytes()),
            join(&m.pages)
        ),
        Message::PeerPage(m) => format!("PeerPage {} {} number={}", m.page.page, m.page.version, m.page.number),
        Message::Revalidate(m) => format!(
            "Revalidate {} horizon={}{}",
            m.number,
            m.horizon,
            join(m.pages.iter().map(|h| format!("{}@{}", h.page, h.version)))
        ),
        Message::Lead(m) => format!("Lead epoch={} address={}", m.epoch, m.address),
        Message::FindLeader(_) => "FindLeader".into(),
        Message::Leader(m) => format!("Leader epoch={} address={}", m.epoch, m.address),
        Message::Members(m) => format!("Members epoch={}{}", m.epoch, join(m.members.iter().map(|m| m.client.0))),
        Message::Promise(m) => format!("Promise {:?}", m.txn),
        other => format!("{other:?}"),
    }
}
