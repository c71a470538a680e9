//! The links: when a message that leaves a node arrives at another.
//!
//! Messages of servers pass those that an application has left to send, as servers interrupt applications. The messages
//! of one connection keep their order.

use super::Hardware;
use super::costs::Message;
use core::mem;
use core::time::Duration;
use std::collections::VecDeque;
use types::Time;

/// Messages of one connection that leave together.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) to: usize,
    pub(super) messages: Vec<Message>,
    pub(super) bytes: u64,
}

impl Parcel {
    fn is_with(&self, other: &Self) -> bool {
        let kind = |parcel: &Self| parcel.messages.first().map(mem::discriminant);
        self.to == other.to && kind(self) == kind(other)
    }
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// A server, which answers.
    Server,
    /// An application, which has begun by itself.
    Application,
}

/// A node's link out. It carries one message at a time.
#[derive(Debug, Default)]
struct Out {
    of_servers: VecDeque<Parcel>,
    of_applications: VecDeque<Parcel>,
    is_busy: bool,
}

/// A link of each node out, and one in. Each carries one message at a time, and the receiver's begins as soon as the
/// first bytes are there.
#[derive(Debug)]
pub(super) struct Links {
    out: Vec<Out>,
    in_free: Vec<Time>,
    wire: Duration,
    bytes_per_second: f64,
}

impl Links {
    pub(super) fn new(nodes: usize, hardware: &Hardware) -> Self {
        let Hardware { wire, link_bytes_per_second: bytes_per_second, .. } = *hardware;
        let mut out = Vec::new();
        out.resize_with(nodes, Out::default);
        Self { out, in_free: vec![Time::ZERO; nodes], wire, bytes_per_second }
    }

    /// The time that a link carries so many bytes.
    fn carries(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }

    /// A node hands messages to its link. Returns whether it is idle.
    pub(super) fn hand(&mut self, from: usize, parcel: Parcel, rank: Rank) -> bool {
        let out = &mut self.out[from];
        let keeps_order = || out.of_applications.iter().any(|before| before.is_with(&parcel));
        let queue = if rank == Rank::Server && !keeps_order() { &mut out.of_servers } else { &mut out.of_applications };
        queue.push_back(parcel);
        !out.is_busy
    }

    /// A node's link is free. Returns what leaves next, when its first byte is at the other's link, and when the link
    /// is free again.
    pub(super) fn carry(&mut self, now: Time, from: usize) -> Option<(Parcel, Time, Time)> {
        let out = &mut self.out[from];
        let next = out.of_servers.pop_front().or_else(|| out.of_applications.pop_front());
        out.is_busy = next.is_some();
        next.map(|parcel| {
            let carries = self.carries(parcel.bytes);
            (parcel, now + self.wire, now + carries)
        })
    }

    /// The first byte of messages is at the other's link. Returns when the link begins to carry them, and when the last
    /// byte has arrived.
    pub(super) fn arrive(&mut self, now: Time, to: usize, bytes: u64) -> [Time; 2] {
        let begins = self.in_free[to].max(now);
        self.in_free[to] = begins + self.carries(bytes);
        [begins, self.in_free[to]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::{Placed, Pong, ToClient, ToNode};
    use types::{ClientId, TxnId, Vector};

    fn parcel(to: usize, message: Message) -> Parcel {
        Parcel { to, messages: vec![message], bytes: 1 }
    }

    fn to_node(to: usize) -> Parcel {
        let txn = TxnId { client: ClientId(1), number: 1 };
        parcel(to, Message::Node(ToNode::Placed(Placed { txn, counts: Vector::new() })))
    }

    #[test]
    fn an_answer_passes_what_an_application_has_left_to_say_but_on_its_connection() {
        let mut links =
            Links { out: vec![Out::default()], in_free: Vec::new(), wire: Duration::ZERO, bytes_per_second: 1e9 };
        let client = |to| parcel(to, Message::Client(ToClient::Pong(Pong { nonce: 1 })));
        assert!(links.hand(0, to_node(1), Rank::Application), "the link is idle");
        assert!(links.carry(Time::ZERO, 0).is_some_and(|(parcel, ..)| parcel.to == 1));
        let said = [
            (to_node(2), Rank::Application),
            (to_node(3), Rank::Application),
            // Behind what goes there already.
            (to_node(3), Rank::Server),
            (to_node(4), Rank::Server),
            // Another connection with the same node.
            (client(3), Rank::Server),
        ];
        assert!(said.into_iter().all(|(parcel, rank)| !links.hand(0, parcel, rank)), "the link is busy");
        let order: Vec<_> = core::iter::from_fn(|| links.carry(Time::ZERO, 0).map(|(parcel, ..)| parcel.to)).collect();
        assert_eq!(order, [4, 3, 2, 3, 3]);
        assert!(links.hand(0, to_node(1), Rank::Server), "it is idle again");
    }
}
