//! The store's family, by direction.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`SERVER`] | a store, or a redirector for its members | `ToServer` | `ToClient` |
//! | [`CLIENT`] | a client, or a redirector for its store | `ToClient` | `ToServer` |
//! | [`PEER`] | a client for its peers | `ToPeer` | `ToPeer` |

use crate::{
    Abandoned, Ack, Arrived, AskOutcome, CommitReply, CommitRequest, Departed, Elsewhere, Fetch, FindLeader, GROUP,
    Grant, Granted, Hello, Help, Intent, Invalidations, Lead, Leader, Leased, LeftOut, Members, NoHelp, Page,
    PeerHello, PeerPage, Ping, Placement, Pong, Promise, Reachable, Released, Resume, Resumed, Revalidate, Revalidated,
    Sync, Synced, Welcome,
};
use alloc::string::String;
use alloc::vec::Vec;
use framing::{Codec, End, family, upstream};
use machine::{Goodbye, Message, Pace, Upstream, Welcomed};

family! {
    of "store";

    /// The messages to a store or a redirector, from the end that has opened the link.
    pub enum ToServer, heard by "store or a redirector" {
        /// Opens a session.
        1 Hello,
        /// Ends it, with the reason.
        39 Goodbye,
        /// The pages that a client still holds from an earlier session.
        4 Resume,
        /// Are you there?
        6 Ping,
        /// Yes.
        7 Pong,
        /// Wants pages.
        8 Fetch,
        /// Pages that the sender no longer holds.
        11 Released,
        /// Wants a transaction committed.
        12 Commit(CommitRequest),
        /// Wants to know what became of a commit request.
        13 AskOutcome,
        /// Changes through here have been applied.
        16 Ack,
        /// Wants pages to create objects in.
        17 Grant,
        /// Where peers reach the sender.
        19 Reachable,
        /// The sender cannot help.
        21 NoHelp,
        /// A page for a peer that is not reached directly.
        22 PeerPage,
        /// Pages from peers have arrived.
        23 Arrived,
        /// What of a member's pages has changed?
        25 Revalidate,
        /// A member has left the group.
        27 Departed,
        /// A redirector takes a group over.
        28 Lead,
        /// Who leads a group?
        29 FindLeader,
        /// The group knows what is about to change.
        34 Promise,
        /// Asks that everything be told which has committed.
        48 Sync,
    }

    /// The messages of a store or a redirector, to the end that has opened the link.
    pub enum ToClient, heard by "client" {
        /// Accepts a session.
        2 Welcome,
        /// Ends it, with the reason.
        39 Goodbye,
        /// Everything that the client holds has been listed again.
        5 Resumed,
        /// Are you there?
        6 Ping,
        /// Yes.
        7 Pong,
        /// A page.
        9 Page,
        /// A page that was to be prefetched was left out.
        10 LeftOut,
        /// The outcome of a commit request.
        14 CommitReply,
        /// The changes.
        15 Invalidations,
        /// Pages to create objects in.
        18 Granted,
        /// Asks for pages to be sent to a peer.
        20 Help,
        /// A page from the cache of a peer that does not reach the client directly.
        22 PeerPage,
        /// The changes of a member's pages.
        26 Revalidated,
        /// The leader of a group.
        30 Leader,
        /// The members of the group.
        31 Members,
        /// A lease for a group.
        32 Leased,
        /// A transaction is about to change what a group holds.
        33 Intent,
        /// The nodes of the store, and the node of each shard.
        40 Placement,
        /// A page is at another node.
        41 Elsewhere,
        /// A transaction that a watcher was asked about changes nothing.
        42 Abandoned,
        /// Everything was told that had committed.
        49 Synced,
    }

    /// The messages between peers.
    pub enum ToPeer, heard by "peer" {
        /// Opens the connection.
        24 PeerHello,
        /// A page from a peer's cache.
        22 PeerPage,
        /// Ends the connection, with the reason.
        39 Goodbye,
    }
}

/// The end that takes sessions.
pub const SERVER: &dyn Codec = End::<ToServer, ToClient>::CODEC;

/// The end that opens them.
pub const CLIENT: &dyn Codec = End::<ToClient, ToServer>::CODEC;

/// The session of a client with a node at one of these addresses.
pub fn session_at(addresses: Vec<String>) -> Upstream {
    upstream(CLIENT, addresses)
}

/// Either end of a connection between peers.
pub const PEER: &dyn Codec = End::<ToPeer, ToPeer>::CODEC;

impl Message for ToServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Hello(_) | Self::Resume(_) => Pace::Opening,
            Self::Ping(_) | Self::Pong(_) => Pace::Urgent,
            Self::Commit(_) => Pace::Yielding,
            Self::Ack(_) | Self::AskOutcome(_) | Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

impl Message for ToClient {
    fn pace(&self) -> Pace {
        match self {
            Self::Welcome(_) | Self::Resumed(_) => Pace::Opening,
            Self::Ping(_) | Self::Pong(_) => Pace::Urgent,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }

    fn welcome(&self) -> Welcomed {
        match self {
            Self::Welcome(welcome) if welcome.features & GROUP != 0 => Welcomed::AmongPeers,
            Self::Welcome(_) => Welcomed::Alone,
            _ => Welcomed::Not,
        }
    }
}

impl Message for ToPeer {
    fn pace(&self) -> Pace {
        if let Self::Goodbye(_) = self { Pace::Trailing } else { Pace::Ordered }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}
