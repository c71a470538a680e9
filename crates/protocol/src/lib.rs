//! The messages of Thorp as plain enums, one file per conversation, with both ends of the wire in it.
//!
//! | conversation | asks | answers |
//! |---|---|---|
//! | [`session`] | `Hello`, `Rejoin`, `Ping` | `Welcome`, `Rejoined`, `Pong`, `Goodbye` |
//! | [`fetch`] | `Fetch`, `Released` | `Page`, `Missing` |
//! | [`commit`] | `CommitRequest`, `AskOutcome` | `CommitReply` |
//! | [`notice`] | `Notices` | `Ack` |
//! | [`place`] | `Grant` | `Granted` |
//!
//! A link is a FIFO stream. Every answer of a master is preceded on the stream by the batch of notices that it depends
//! on; nothing else about order is promised, answers to different questions may overtake one another.
#![no_std]

extern crate alloc;

pub mod commit;
pub mod fetch;
pub mod notice;
pub mod place;
pub mod session;

pub use commit::{Advance, AskOutcome, CommitReply, CommitRequest, Outcome, PageReads};
pub use fetch::{Fetch, Missing, Page, Released};
pub use notice::{Ack, Notice, Notices};
pub use place::{Grant, Granted};
pub use session::{Goodbye, Held, Hello, Ping, Pong, Rejoin, Rejoined, SessionLimits, Welcome};

/// The oldest and the newest protocol that this code speaks.
pub const PROTOCOL: (u16, u16) = (1, 1);

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
    /// There is no such page.
    Missing(Missing),
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
}
