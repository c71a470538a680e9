//! The messages of Thorp as plain enums, one file per conversation, with both ends of the wire in it.
//!
//! | conversation | asks | answers |
//! |---|---|---|
//! | [`session`] | `Hello`, `Rejoin`, `Ping` | `Welcome`, `Rejoined`, `Pong`, `Goodbye` |
//! | [`fetch`] | `Fetch`, `Released` | `Page`, `LeftOut` |
//! | [`commit`] | `CommitRequest`, `AskOutcome` | `CommitReply` |
//! | [`notice`] | `Notices` | `Ack` |
//! | [`place`] | `Grant` | `Granted` |
//! | [`help`] | `Help`, `Reachable` | `PeerPage`, `NoHelp`, `Arrived` |
//! | [`lease`] | `Intent` | `Leased`, `Promise` |
//! | [`group`] | `Revalidate`, `Lead`, `FindLeader`, `Departed` | `Revalidated`, `Leader`, `Members` |
//! | [`status`] | `AskStatus` | `Status` |
//!
//! A link is a FIFO stream, but for what [`order`] lets pass. Every answer of a master is preceded on the stream by the
//! batch of notices that it depends on; nothing else about order is promised, answers to different questions may overtake
//! one another.
#![no_std]

extern crate alloc;

pub mod commit;
mod counts;
pub mod fetch;
mod form;
pub mod group;
pub mod help;
pub mod lease;
pub mod lineage;
pub mod notice;
pub mod order;
pub mod place;
pub mod session;
pub mod status;

pub use commit::{Advance, AskOutcome, CommitReply, CommitRequest, Outcome, PageReads};
pub use fetch::{Fetch, Follow, LeftOut, Page, Released};
pub use group::{Departed, FindLeader, GROUP, Lead, Leader, Member, Members, Revalidate, Revalidated};
pub use help::{Arrived, Help, NoHelp, PeerHello, PeerPage, Reachable};
pub use lease::{Intent, Leased, Promise};
pub use lineage::Lineage;
pub use notice::{Ack, Notice, Notices};
pub use place::{Grant, Granted};
pub use session::{Goodbye, Held, Hello, Ping, Pong, Rejoin, Rejoined, SessionLimits, Welcome};
pub use status::{AskStatus, Cell, Status, Table};

/// The oldest and the newest protocol that this code speaks.
pub const PROTOCOL: (u16, u16) = (4, 4);

/// One message between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Opens a session.
    Hello(Hello),
    /// Accepts it.
    Welcome(Welcome),
    /// Ends it, with the reason.
    Goodbye(Goodbye),
    /// What a client still holds from an earlier session.
    Rejoin(Rejoin),
    /// All of that has been listed again.
    Rejoined(Rejoined),
    /// Are you there?
    Ping(Ping),
    /// Yes.
    Pong(Pong),
    /// Wants pages.
    Fetch(Fetch),
    /// A page.
    Page(Page),
    /// A page that was to be prefetched was left out.
    LeftOut(LeftOut),
    /// Pages that the sender no longer holds.
    Released(Released),
    /// Wants a transaction committed.
    Commit(CommitRequest),
    /// Wants to know what became of a commit request.
    AskOutcome(AskOutcome),
    /// What became of it.
    CommitReply(CommitReply),
    /// What has changed.
    Notices(Notices),
    /// Changes through here have been applied.
    Ack(Ack),
    /// Wants pages to create objects in.
    Grant(Grant),
    /// Pages to create objects in.
    Granted(Granted),
    /// Where neighbours reach the sender.
    Reachable(Reachable),
    /// Asks for pages to be sent to a neighbour.
    Help(Help),
    /// The sender cannot help.
    NoHelp(NoHelp),
    /// A page from a neighbour's cache.
    PeerPage(PeerPage),
    /// Pages from neighbours have arrived.
    Arrived(Arrived),
    /// Opens a connection between neighbours.
    PeerHello(PeerHello),
    /// What of a member's pages has changed?
    Revalidate(Revalidate),
    /// That has.
    Revalidated(Revalidated),
    /// A member has left the group.
    Departed(Departed),
    /// A redirector takes a group over.
    Lead(Lead),
    /// Who leads a group?
    FindLeader(FindLeader),
    /// That one.
    Leader(Leader),
    /// The members of the group.
    Members(Members),
    /// A lease for a group.
    Leased(Leased),
    /// A transaction is about to change what a group holds.
    Intent(Intent),
    /// The group knows.
    Promise(Promise),
    /// How does the node stand?
    AskStatus(AskStatus),
    /// Like this.
    Status(Status),
}
