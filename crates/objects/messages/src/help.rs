//! How a page reaches a member of a group from a peer's cache (BuddyCache paper, section 4.3).
//!
//! ```text
//!   requester             redirector             helper
//!      | Fetch{number} ------> |                    |
//!      | <-- Invalidations     | Help{through} ---> |   all that was told before the help was asked for
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

use crate::{Page, PerShard};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::check_count;
use framing::{Field, FieldLayout, Layout, Limits, Meta, Reader, Rest, Text, WireError, messages};
use types::limits::{ADDRESS_BYTES_MAX, PAGE_BYTES_MAX, PAGES_PER_MESSAGE_MAX};
use types::{ClientId, PageId, PeerKey, Vector};

messages! {
    /// A member says where its peers reach it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Reachable {
        /// The key that lets them in there.
        pub key: PeerKey,
        /// For pages, as `host:port`; empty if they do not.
        pub address: String as Text<ADDRESS_BYTES_MAX>,
        /// Where they would reach it as their redirector; empty if it is not eligible.
        pub eligible: String as Text<ADDRESS_BYTES_MAX>,
    }

    /// Asks a member to send pages to a peer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Help {
        /// The member that needs them.
        pub requester: ClientId,
        /// The requester's fetch, which the pages answer.
        pub number: u64,
        /// The helper has been notified of everything through here, and so has the requester.
        pub through: Vector as PerShard,
        /// The key that lets a peer in there.
        pub key: PeerKey,
        /// Where the requester is reached; by way of the redirector, if empty.
        pub address: String as Text<ADDRESS_BYTES_MAX>,
        /// The pages.
        pub pages: Vec<PageId> as Rest<PAGES_PER_MESSAGE_MAX>,
    }

    /// The helper does not have these pages, or not whole.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NoHelp {
        /// The member that needs them.
        pub requester: ClientId,
        /// The requester's fetch.
        pub number: u64,
        /// The pages.
        pub pages: Vec<PageId> as Rest<PAGES_PER_MESSAGE_MAX>,
    }
}

/// A page from a peer's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPage {
    /// The member that needs it.
    pub requester: ClientId,
    /// The counts through which everything that the page reflects has been told: its receiver hears that first.
    pub through: Vector,
    /// The page, with the number of the requester's fetch.
    pub page: Page,
}

messages! {
    /// Pages that peers sent have arrived.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Arrived {
        /// Each with the number of its fetch.
        pub pages: Vec<(PageId, u64)> as Rest<PAGES_PER_MESSAGE_MAX>,
    }

    /// Opens a connection between peers: who it is that will send pages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PeerHello {
        /// The member that opens it.
        pub client: ClientId,
        /// The key of the member that it connects to.
        pub key: PeerKey,
    }
}

/// The image is the body. Nothing is said of whether the page is fresh, which a peer's never is.
impl Layout for PeerPage {
    const LIMITS: Limits =
        Limits::bytes(4 * u64::BYTES).and(<PerShard as FieldLayout<Vector>>::LIMITS).with_body(PAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of a page", self.page.image.len(), PAGE_BYTES_MAX)?;
        (self.requester, self.page.number).put(meta);
        (self.page.page, self.page.version).put(meta);
        PerShard::put(&self.through, "through", meta)
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.page.image)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (requester, number) = Field::get("fetch", reader)?;
        let (page, version) = Field::get("page", reader)?;
        let through = PerShard::get("through", reader)?;
        let page = Page { page, version, number, fresh: false, behind: Vec::new(), image: reader.bytes_rest() };
        Ok(Self { requester, through, page })
    }
}
