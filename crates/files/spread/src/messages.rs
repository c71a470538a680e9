//! The family of published files: a file server or a relay, and its subscribers and publishers.
//!
//! ```text
//!   subscriber                     relay or file server                              publisher
//!     | Join{life, asked, held} -----> |                                                 |
//!     | <--- Joined{asked, lease, 17}  | <------------------------------ Have{hashes}    |
//!     |                                |   Missing{hashes} ----------------------------> |
//!     |                                | <------------------------------ Put{chunks} *   |
//!     | <--------- Ahead{chunks}       |   Stored -------------------------------------> |   durable
//!     |                                | <------------------------------ Switch{base, root}
//!     | <--------- Offer{18, edits}    |   Published{18} ------------------------------> |   durable, and the newest
//!     | Want{hashes} ----------------> |                                                 |
//!     | <----------------- Chunk *     |                                                 |
//!     | Renew{asked, at 18, 17} -----> |   18 is served, and 17 is read by nobody        |
//!     | <------ Renewed{asked, lease}  |   Everywhere ---------------------------------> |   to those who wait for it
//! ```
//! Sites with another consistency push no content. `Revoke` comes before a publish, `Invalidate` after it:
//!
//! ```text
//!     | <--------- Revoke              |   sequential: the switch waits for all releases
//!     | Release ---------------------> |
//!     | <--------- Invalidate{18}      |   callback
//!     | Acquire{17} -----------------> |   when somebody wants to read
//!     | <--------- Offer{18, edits}    |
//! ```
//! Subscribers may fetch the chunks of `Ahead` before the switch. They have no number, so nothing serves them.
//!
//! A publisher can lock a path: `Lock`, `KeepLocks` and `Unlock` are in `locks`. The sites of a space are at one node
//! of a store of several: `Enter`, `Elsewhere` and the change of that node are in `places`.
//!
//! A renewal keeps its place behind the offers (**RenewInOrder**), so a lease does not cover offers that are still on
//! their way. Chunks let everything else pass.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`FILE_SERVER`] | a file server or a relay | `ToFileServer` | `FromFileServer` |
//! | [`SUBSCRIBER`] | a relay, a member, a publisher | `FromFileServer` | `ToFileServer` |

mod fields;
mod locks;
mod places;
mod publishes;
mod sites;
mod subscriptions;

pub use fields::{Counted, Hash, Hashes, MayBe, PathBytes, Perhaps, Sizes, Token, VisitorKey};
pub use locks::{KeepLocks, Lock, LockOver, Locked, LocksKept, RecallLock, Unlock};
pub use places::{Elsewhere, Enter, HandOver, HandedOver};
pub use publishes::{Everywhere, Have, Identity, Missing, Published, Put, Refusal, Refused, Size, Stored, Switch};
pub use sites::{Change, ChangeKind, Changed, Collect, Collected, Consistency, Standing, Survey, Surveyed, WhenStale};
pub use subscriptions::{
    Acquire, Ahead, Chunk, Gone, Held, Hold, Invalidate, Join, Joined, Lapsed, Leave, NotJoined, NotNow, Offer,
    Release, Renew, Renewed, Revoke, Unread, Want,
};

use framing::{Codec, End, family};
use machine::{Goodbye, Message, Pace, Welcomed};

family! {
    of "published files";

    /// The messages to a file server or a relay.
    pub enum ToFileServer, heard by "file server or a relay" {
        /// Wants a site.
        1 Join,
        /// Asks for more of its lease.
        2 Renew,
        /// Asks for a hold.
        3 Hold,
        /// Wants a site no longer.
        4 Leave,
        /// Wants chunks.
        5 Want,
        /// Is going to need chunks.
        6 Have,
        /// Chunks.
        7 Put,
        /// Makes a tree the newest revision.
        8 Switch,
        /// Changes settings.
        9 Change,
        /// Wants unused chunks removed.
        10 Collect,
        /// Asks for a site's head and subscribers.
        11 Survey,
        /// Wants the newest revision.
        12 Acquire,
        /// Serves no revision as the newest.
        13 Release,
        /// Wants a lock.
        14 Lock,
        /// Asks for more of the lease of locks.
        15 KeepLocks,
        /// Releases a lock.
        16 Unlock,
        /// Names the space of the session.
        44 Enter,
        /// Wants to be the home of a space.
        46 HandOver,
        /// Ends the session, with the reason.
        39 Goodbye,
    }

    /// The messages of a file server or a relay.
    pub enum FromFileServer, heard by "subscriber or a publisher" {
        /// There is a newer revision, to be acquired.
        17 Invalidate,
        /// The newest revision must be released.
        18 Revoke,
        /// Chunks that a revision may need.
        19 Ahead,
        /// A site, and a lease.
        20 Joined,
        /// None.
        21 NotJoined,
        /// A newer revision.
        22 Offer,
        /// The lease is renewed.
        23 Renewed,
        /// The lease is over.
        24 Lapsed,
        /// A hold, or none.
        25 Held,
        /// A chunk.
        26 Chunk,
        /// A chunk that is not there.
        27 Gone,
        /// Chunks to be put.
        28 Missing,
        /// Chunks are durable.
        29 Stored,
        /// A revision is durable.
        30 Published,
        /// Every older revision that is served says that it is stale.
        31 Everywhere,
        /// A change is durable.
        32 Changed,
        /// A collection has ended.
        33 Collected,
        /// A site's head and subscribers.
        34 Surveyed,
        /// A request was refused.
        35 Refused,
        /// A lock.
        36 Locked,
        /// Ends the session, with the reason.
        39 Goodbye,
        /// The lease of locks.
        40 LocksKept,
        /// A lock is waited for.
        41 RecallLock,
        /// A lock has ended.
        42 LockOver,
        /// A chunk that cannot be read at the moment.
        43 Unread,
        /// The sites are at another node.
        45 Elsewhere,
        /// A space is served no longer.
        47 HandedOver,
    }
}

/// The end that takes sessions.
pub const FILE_SERVER: &dyn Codec = End::<ToFileServer, FromFileServer>::CODEC;

/// The end that opens them.
pub const SUBSCRIBER: &dyn Codec = End::<FromFileServer, ToFileServer>::CODEC;

impl Message for ToFileServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Put(_) => Pace::Yielding,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

impl Message for FromFileServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Chunk(_) => Pace::Yielding,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    /// A server that cannot let its subscriber join yet, or does not have its site, has not let it in: it is not where
    /// to stay.
    fn welcome(&self) -> Welcomed {
        match self {
            Self::NotJoined(NotJoined { why: NotNow::NotYet, .. }) | Self::Elsewhere(_) => Welcomed::Not,
            _ => Welcomed::Alone,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}
