//! What must not leave yet: messages that wait for a log position, and those behind them on the same session.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use protocol::ToClient;
use store::{Position, SessionId};
use types::GoodbyeReason;

/// Something that leaves on a session.
#[derive(Debug)]
pub(crate) enum Item {
    /// A message.
    Send(ToClient),
    /// Its driver is to say when what went before has left.
    AwaitRoom,
    /// The session's end.
    End(GoodbyeReason, String),
}

/// The queues. A session has one only while something of it waits; whatever may leave at once passes through `ready`.
#[derive(Debug, Default)]
pub(crate) struct Held {
    durable: Position,
    waiting: BTreeMap<SessionId, VecDeque<(Position, Item)>>,
    ready: VecDeque<(SessionId, Item)>,
}

impl Held {
    /// Takes an item that may leave once `after` is durable and all before it on its session has left.
    pub(crate) fn push(&mut self, session: SessionId, item: Item, after: Option<Position>) {
        let after = after.unwrap_or_default();
        match self.waiting.get_mut(&session) {
            Some(queue) => queue.push_back((after, item)),
            None if after <= self.durable => self.ready.push_back((session, item)),
            None => {
                self.waiting.insert(session, VecDeque::from([(after, item)]));
            }
        }
    }

    /// Everything through `through` is durable.
    pub(crate) fn durable(&mut self, through: Position) {
        self.durable = self.durable.max(through);
        let (durable, ready) = (self.durable, &mut self.ready);
        self.waiting.retain(|&session, queue| {
            while queue.front().is_some_and(|(after, _)| *after <= durable) {
                let (_, item) = queue.pop_front().expect("just seen");
                ready.push_back((session, item));
            }
            !queue.is_empty()
        });
    }

    /// The session is gone, and all that it waited for.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.waiting.remove(&session);
        self.ready.retain(|(s, _)| *s != session);
    }

    /// The next item that may leave.
    pub(crate) fn pop(&mut self) -> Option<(SessionId, Item)> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use protocol::Ping;

    fn ping(nonce: u64) -> Item {
        Item::Send(ToClient::Ping(Ping { nonce }))
    }

    fn drain(held: &mut Held) -> Vec<(u64, u64)> {
        core::iter::from_fn(|| held.pop())
            .map(|(session, item)| match item {
                Item::Send(ToClient::Ping(ping)) => (session.0, ping.nonce),
                other => panic!("expected a ping, got {other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_waits_holds_back_its_own_session_only() {
        let (mut held, one, two) = (Held::default(), SessionId(1), SessionId(2));
        held.push(one, ping(1), None);
        held.push(one, ping(2), Some(Position(5)));
        held.push(one, ping(3), None);
        held.push(two, ping(4), None);
        assert_eq!(drain(&mut held), [(1, 1), (2, 4)]);
        held.durable(Position(4));
        assert_eq!(drain(&mut held), []);
        held.durable(Position(5));
        assert_eq!(drain(&mut held), [(1, 2), (1, 3)]);
        held.push(one, ping(6), Some(Position(5)));
        assert_eq!(drain(&mut held), [(1, 6)]);
    }
}
