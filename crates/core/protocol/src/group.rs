//! How a group is at its store: a redirector's session is one session for all of its members.
//!
//! ```text
//!   redirector                            store
//!     | Hello{features: GROUP} ----------> |   transactions and pages of any client may come on it
//!     | Rejoin, Rejoined                   |   as for any session
//!     | Lead{group, epoch} --------------> |   of two redirectors of one group the higher epoch lives
//!     | <----------------- Leader{epoch}   |
//!     | Revalidate{number, pages} -------> |   a member has come with a cache
//!     | <-- Revalidated{number, items}     |   what of it has changed
//! ```

use crate::{Held, Notice};
use alloc::string::String;
use alloc::vec::Vec;
use types::{ClientId, PageId, Version};

/// In [`crate::Hello::features`]: the session is a redirector's, for a whole group. In [`crate::Welcome::features`]: a
/// redirector answers, and the session is one of its members'.
pub const GROUP: u64 = 1;

/// A member has come with pages from an earlier session, perhaps with somebody else: what of them has changed?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revalidate {
    /// Comes back in the answer.
    pub number: u64,
    /// The member has learned of every change to them through here.
    pub horizon: Version,
    /// The pages. The group holds them from now on.
    pub pages: Vec<Held>,
}

/// The changes of a member's pages. Notices of everything before have gone before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revalidated {
    /// The question's.
    pub number: u64,
    /// Pages that changed, slot by slot.
    pub items: Vec<Notice>,
    /// Pages that changed in ways the store no longer knows slot by slot: the member drops them.
    pub dropped: Vec<PageId>,
}

/// A member has left the group for good: what the store keeps for it may be forgotten when the grace is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// The member.
    pub client: ClientId,
}

/// A redirector takes a group over, or continues with it. Answered by [`Leader`]: if that is another one, the session
/// ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The group's name.
    pub group: String,
    /// The epoch that it takes the group over with: one more than it knows of, or 1; its own if it continues.
    pub epoch: u64,
    /// Where members reach it; never empty.
    pub address: String,
}

/// Wants to know who leads a group. Anyone may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindLeader {
    /// The group's name.
    pub group: String,
}

/// The leader of a group, or the last one, not longer ago than the store's grace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The group's name.
    pub group: String,
    /// Its epoch, or the last one; zero if it is not known.
    pub epoch: u64,
    /// Where members reach its redirector; empty if nobody leads it now.
    pub address: String,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member.
    pub client: ClientId,
    /// Where it would be reached as the group's redirector; empty if it is not eligible.
    pub address: String,
}

/// The members of a group, longest there first: when the redirector dies, the first eligible one takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The group's name.
    pub group: String,
    /// Its epoch.
    pub epoch: u64,
    /// Where its redirector is reached.
    pub address: String,
    /// Where the group's store is reached.
    pub store: Vec<String>,
    /// The members.
    pub members: Vec<Member>,
}
