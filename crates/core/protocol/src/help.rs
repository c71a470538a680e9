//! How a page reaches a member of a group from a peer's cache (BuddyCache paper, section 4.3).
//!
//! ```text
//!   requester             redirector             helper
//!      | Fetch{number} ------> |                    |
//!      | <-- Notices{through}  | Help{through} ---> |   all that was told before the help was asked for
//!      | <================= PeerPage{through} ===== |   on a connection of their own, or by way of the redirector
//!      | Arrived ------------> |                    |   with the next message
//!
//!      |                       | <---------- NoHelp |   the helper does not have the page whole any more
//! ```
//! The redirector's stream to the helper is FIFO, so the page reflects every change that the redirector had told when
//! it asked for help: everything through `through`. The requester is listed as a holder by then, and hears of the
//! later changes itself.
//!
//! Any process that reaches a member's port may connect to it. So a member draws a key, and tells it to its redirector
//! with `Reachable`; a member that gets `Help` gets the key too, and shows it with `PeerHello`. It says that a
//! peer comes by way of the redirector, and so that it belongs to the group and to the store. On a wire that is
//! not encrypted an eavesdropper has it as well.

use crate::Page;
use alloc::string::String;
use alloc::vec::Vec;
use types::{ClientId, PageId, PeerKey, Version};

/// A member says where its peers reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachable {
    /// For pages, as `host:port`; empty if they do not.
    pub address: String,
    /// The key that lets them in there.
    pub key: PeerKey,
    /// Where they would reach it as their redirector; empty if it is not eligible.
    pub eligible: String,
}

/// Asks a member to send pages to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// The member that needs them.
    pub requester: ClientId,
    /// The requester's fetch, which the pages answer.
    pub number: u64,
    /// The helper has been notified of everything through here, and so has the requester.
    pub through: Version,
    /// Where the requester is reached; by way of the redirector, if empty.
    pub address: String,
    /// The key that lets a peer in there.
    pub key: PeerKey,
    /// The pages.
    pub pages: Vec<PageId>,
}

/// The helper does not have these pages, or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHelp {
    /// The member that needs them.
    pub requester: ClientId,
    /// The requester's fetch.
    pub number: u64,
    /// The pages.
    pub pages: Vec<PageId>,
}

/// A page from a peer's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPage {
    /// The member that needs it.
    pub requester: ClientId,
    /// The count through which everything that the page reflects has been told: its receiver hears that first.
    pub through: Version,
    /// The page, with the number of the requester's fetch.
    pub page: Page,
}

/// Pages that peers sent have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Each with the number of its fetch.
    pub pages: Vec<(PageId, u64)>,
}

/// Opens a connection between peers: who it is that will send pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerHello {
    /// The member that opens it.
    pub client: ClientId,
    /// The key of the member that it connects to.
    pub key: PeerKey,
}
