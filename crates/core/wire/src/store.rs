//! The store's family: the messages of clients, redirectors and stores, and those between peers.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`SERVER`] | a store, or a redirector for its members | `ToServer` | `ToClient` |
//! | [`CLIENT`] | a client, or a redirector for its store | `ToClient` | `ToServer` |
//! | [`PEER`] | a client for its peers | `ToPeer` | `ToPeer` |
//!
//! Each conversation has a file with the bytes of its messages.

mod commit;
mod fetch;
mod field;
mod grant;
mod group;
mod help;
mod kind;
mod lease;
mod notice;
mod session;
mod status;

use crate::codec::{Codec, Direction, End, Known};
use crate::layout::{Layout, Reader};
use crate::{Batch, Limits, WireError};
pub use kind::Kind;
use protocol::{ToClient, ToPeer, ToServer};

/// The end that takes sessions.
pub const SERVER: &dyn Codec = End::<ToServer, ToClient>::CODEC;

/// The end that opens them.
pub const CLIENT: &dyn Codec = End::<ToClient, ToServer>::CODEC;

/// Either end of a connection between peers.
pub const PEER: &dyn Codec = End::<ToPeer, ToPeer>::CODEC;

/// Returns an enum its frames: the kinds of its messages on the wire have the names of its variants.
macro_rules! direction {
    ($name:ident, for $reader:literal, first $opening:literal $($opens:ident)|+, all $($kind:ident)|+) => {
        impl Direction for $name {
            const READER: &'static str = $reader;
            const OPENING: &'static str = $opening;

            fn known(number: u8) -> Option<Known> {
                let kind = Kind::from_number(number)?;
                let limits = match kind {
                    $(Kind::$kind => Some(limits_of(Self::$kind)),)+
                    _ => None,
                };
                Some(Known { name: kind.name(), limits, may_open: matches!(kind, $(Kind::$opens)|+) })
            }

            fn encode(&self, batch: &mut Batch) -> Result<(), WireError> {
                match self {
                    $(Self::$kind(message) => batch.frame(Kind::$kind as u8, message),)+
                }
            }

            fn decode(number: u8, reader: Reader<'_>) -> Result<Self, WireError> {
                match Kind::from_number(number) {
                    $(Some(Kind::$kind) => reader.message().map(Self::$kind),)+
                    _ => Err(WireError::Kind { got: number }),
                }
            }
        }
    };
}

direction! {
    ToServer, for "store or a redirector",
    first "Hello or AskStatus" Hello | AskStatus,
    all Hello | Goodbye | Rejoin | Ping | Pong | Fetch | Released | Commit | AskOutcome | Ack | Grant | Reachable
        | NoHelp | PeerPage | Arrived | Revalidate | Departed | Lead | FindLeader | Promise | AskStatus
}

direction! {
    ToClient, for "client",
    first "Welcome, Leader, Goodbye or Status" Welcome | Leader | Goodbye | Status,
    all Welcome | Goodbye | Rejoined | Ping | Pong | Page | LeftOut | CommitReply | Notices | Granted | Help
        | PeerPage | Revalidated | Leader | Members | Leased | Intent | Status
}

direction! {
    ToPeer, for "peer",
    first "PeerHello" PeerHello | Goodbye,
    all PeerHello | PeerPage | Goodbye
}

/// The limits of the message that a variant of an enum has.
fn limits_of<M: Layout, D>(_: fn(M) -> D) -> Limits {
    M::LIMITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn heard<D: Direction>() -> Vec<Kind> {
        let is_heard = |kind: &Kind| D::known(*kind as u8).is_some_and(|known| known.limits.is_some());
        Kind::ALL.into_iter().filter(is_heard).collect()
    }

    fn opening<D: Direction>() -> Vec<Kind> {
        let may_open = |kind: &Kind| D::known(*kind as u8).is_some_and(|known| known.may_open);
        Kind::ALL.into_iter().filter(may_open).collect()
    }

    #[test]
    fn every_kind_has_a_reader() {
        let all = [heard::<ToServer>(), heard::<ToClient>(), heard::<ToPeer>()].concat();
        assert!(Kind::ALL.iter().all(|kind| all.contains(kind)));
    }

    #[test]
    fn a_message_that_opens_a_link_is_heard_there() {
        assert_eq!(opening::<ToServer>(), [Kind::Hello, Kind::AskStatus]);
        assert_eq!(opening::<ToClient>(), [Kind::Welcome, Kind::Goodbye, Kind::Leader, Kind::Status]);
        assert!(opening::<ToServer>().iter().all(|kind| heard::<ToServer>().contains(kind)));
        assert!(opening::<ToClient>().iter().all(|kind| heard::<ToClient>().contains(kind)));
    }

    #[test]
    fn peers_say_little_to_each_other() {
        assert_eq!(heard::<ToPeer>(), [Kind::Goodbye, Kind::PeerPage, Kind::PeerHello]);
        assert_eq!(opening::<ToPeer>(), [Kind::Goodbye, Kind::PeerHello]);
    }
}
