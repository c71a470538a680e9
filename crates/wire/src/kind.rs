//! The kinds of frame, and which end of a link receives which.

/// Which end of a link reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that takes sessions.
    Store,
    /// The end that opens them.
    Client,
    /// Either end of a connection between neighbours.
    Peer,
}

/// The kinds of frame, by their numbers on the wire: messages, and pieces of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the message of its name")]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Goodbye = 3,
    Rejoin = 4,
    Rejoined = 5,
    Ping = 6,
    Pong = 7,
    Fetch = 8,
    Page = 9,
    LeftOut = 10,
    Released = 11,
    Commit = 12,
    AskOutcome = 13,
    CommitReply = 14,
    Notices = 15,
    Ack = 16,
    Grant = 17,
    Granted = 18,
    Reachable = 19,
    Help = 20,
    NoHelp = 21,
    PeerPage = 22,
    Arrived = 23,
    PeerHello = 24,
    Revalidate = 25,
    Revalidated = 26,
    Departed = 27,
    Lead = 28,
    FindLeader = 29,
    Leader = 30,
    Members = 31,
    Leased = 32,
    Intent = 33,
    Promise = 34,
    AskStatus = 35,
    Status = 36,
    /// A piece of a large message.
    Piece = 37,
}

impl Kind {
    /// All kinds, in the order of their numbers, which count from 1.
    pub const ALL: [Self; 37] = [
        Self::Hello,
        Self::Welcome,
        Self::Goodbye,
        Self::Rejoin,
        Self::Rejoined,
        Self::Ping,
        Self::Pong,
        Self::Fetch,
        Self::Page,
        Self::LeftOut,
        Self::Released,
        Self::Commit,
        Self::AskOutcome,
        Self::CommitReply,
        Self::Notices,
        Self::Ack,
        Self::Grant,
        Self::Granted,
        Self::Reachable,
        Self::Help,
        Self::NoHelp,
        Self::PeerPage,
        Self::Arrived,
        Self::PeerHello,
        Self::Revalidate,
        Self::Revalidated,
        Self::Departed,
        Self::Lead,
        Self::FindLeader,
        Self::Leader,
        Self::Members,
        Self::Leased,
        Self::Intent,
        Self::Promise,
        Self::AskStatus,
        Self::Status,
        Self::Piece,
    ];

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Whether `reader` may receive it at all. What an end never receives is refused by its header, before any of it
    /// is kept.
    pub const fn is_for(self, reader: End) -> bool {
        match self {
            // What a neighbour sends goes directly, or by way of the redirector.
            Self::Goodbye | Self::PeerPage | Self::Piece => true,
            Self::Ping | Self::Pong => matches!(reader, End::Store | End::Client),
            Self::Hello
            | Self::Rejoin
            | Self::Fetch
            | Self::Released
            | Self::Commit
            | Self::AskOutcome
            | Self::Ack
            | Self::Grant
            | Self::Reachable
            | Self::NoHelp
            | Self::Arrived
            | Self::Revalidate
            | Self::Departed
            | Self::Lead
            | Self::FindLeader
            | Self::Promise
            | Self::AskStatus => matches!(reader, End::Store),
            Self::Welcome
            | Self::Rejoined
            | Self::Page
            | Self::LeftOut
            | Self::CommitReply
            | Self::Notices
            | Self::Granted
            | Self::Help
            | Self::Revalidated
            | Self::Leader
            | Self::Members
            | Self::Leased
            | Self::Intent
            | Self::Status => matches!(reader, End::Client),
            Self::PeerHello => matches!(reader, End::Peer),
        }
    }

    /// Whether it may be the first message that `reader` receives. A piece is as good as the message that it is of.
    pub const fn may_open(self, reader: End) -> bool {
        match reader {
            End::Store => matches!(self, Self::Hello | Self::AskStatus),
            End::Client => matches!(self, Self::Welcome | Self::Leader | Self::Goodbye | Self::Status),
            End::Peer => matches!(self, Self::PeerHello | Self::Goodbye),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn numbers_are_the_ones_on_the_wire() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Kind::from_number(kind as u8)), (i + 1, Some(kind)));
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(38)), (None, None));
    }

    #[test]
    fn every_kind_has_a_reader() {
        for kind in Kind::ALL {
            assert!([End::Store, End::Client, End::Peer].into_iter().any(|end| kind.is_for(end)));
        }
    }

    #[test]
    fn neighbours_say_little_to_each_other() {
        let all = |is: fn(&Kind) -> bool| Kind::ALL.into_iter().filter(is).collect::<Vec<_>>();
        assert_eq!(all(|kind| kind.is_for(End::Peer)), [Kind::Goodbye, Kind::PeerPage, Kind::PeerHello, Kind::Piece]);
        assert_eq!(all(|kind| kind.may_open(End::Peer)), [Kind::Goodbye, Kind::PeerHello]);
    }
}
