//! The messages that must not leave yet: those that wait for a log position, and those behind them on the same port.

use crate::Parcel;
use crate::machine::Port;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use types::{GoodbyeReason, Position};

/// Something that leaves on a port.
#[derive(Debug)]
pub(crate) enum Item {
    /// A message.
    Send(Parcel),
    /// Its driver should say when what went before has left.
    AwaitRoom,
    /// The connection's end.
    End(GoodbyeReason, String),
    /// The end of an upstream session that is not opened again.
    Close,
}

/// The queues. A port has one only while something of it waits; whatever may leave at once passes through `ready`.
#[derive(Debug, Default)]
pub(crate) struct Held {
    durable: Position,
    waiting: BTreeMap<Port, VecDeque<(Position, Item)>>,
    ready: VecDeque<(Port, Item)>,
}

impl Held {
    /// Takes an item that may leave once `after` is durable and all before it on its port has left.
    pub(crate) fn push(&mut self, port: Port, item: Item, after: Option<Position>) {
        let after = after.unwrap_or_default();
        match self.waiting.get_mut(&port) {
            Some(queue) => queue.push_back((after, item)),
            None if after <= self.durable => self.ready.push_back((port, item)),
            None => {
                self.waiting.insert(port, VecDeque::from([(after, item)]));
            }
        }
    }

    /// Everything through `through` is durable.
    pub(crate) fn durable(&mut self, through: Position) {
        self.durable = self.durable.max(through);
        let (durable, ready) = (self.durable, &mut self.ready);
        self.waiting.retain(|&port, queue| {
            while queue.front().is_some_and(|(after, _)| *after <= durable) {
                let (_, item) = queue.pop_front().expect("just seen");
                ready.push_back((port, item));
            }
            !queue.is_empty()
        });
    }

    /// The connection is gone, and everything that waited to leave on it.
    pub(crate) fn forget(&mut self, port: Port) {
        self.waiting.remove(&port);
        self.ready.retain(|(of, _)| *of != port);
    }

    /// Nothing that waits will become durable. Returns the connections that it waited on, without it.
    pub(crate) fn fail(&mut self) -> Vec<Port> {
        mem::take(&mut self.waiting).into_keys().collect()
    }

    /// The next item that may leave.
    pub(crate) fn pop(&mut self) -> Option<(Port, Item)> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goodbye, Message, Pace};
    use types::SessionId;

    #[derive(Debug, PartialEq)]
    struct Numbered(u64);

    impl From<Goodbye> for Numbered {
        fn from(_: Goodbye) -> Self {
            Self(0)
        }
    }

    impl Message for Numbered {
        fn pace(&self) -> Pace {
            Pace::Ordered
        }

        fn goodbye(&self) -> Option<&Goodbye> {
            None
        }
    }

    fn numbered(number: u64) -> Item {
        Item::Send(Parcel::new(Numbered(number)))
    }

    fn drain(held: &mut Held) -> Vec<(Port, u64)> {
        core::iter::from_fn(|| held.pop())
            .map(|(port, item)| match item {
                Item::Send(message) => match message.get() {
                    Some(Numbered(number)) => (port, *number),
                    None => panic!("expected a numbered one, got {message:?}"),
                },
                other => panic!("expected a message, got {other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_waiting_message_holds_back_its_own_session_only() {
        let [one, two] = [1, 2].map(|number| Port::Session(SessionId(number)));
        let mut held = Held::default();
        held.push(one, numbered(1), None);
        held.push(one, numbered(2), Some(Position(5)));
        held.push(one, numbered(3), None);
        held.push(two, numbered(4), None);
        assert_eq!(drain(&mut held), [(one, 1), (two, 4)]);
        held.durable(Position(4));
        assert_eq!(drain(&mut held), []);
        held.durable(Position(5));
        assert_eq!(drain(&mut held), [(one, 2), (one, 3)]);
        held.push(one, numbered(6), Some(Position(5)));
        assert_eq!(drain(&mut held), [(one, 6)]);
    }

    #[test]
    fn what_waits_for_a_failed_disk_never_leaves() {
        let [one, two] = [1, 2].map(|number| Port::Session(SessionId(number)));
        let mut held = Held::default();
        held.push(one, numbered(1), Some(Position(5)));
        held.push(two, numbered(2), None);
        assert_eq!(held.fail(), [one]);
        held.durable(Position(5));
        assert_eq!(drain(&mut held), [(two, 2)]);
        held.push(one, numbered(3), Some(Position(5)));
        assert_eq!(drain(&mut held), [(one, 3)]);
    }
}
