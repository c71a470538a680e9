//! A shard that moves to another node: its pages are copied while its master serves it, and then it is closed.
//!
//! ```text
//!   n2, to which shard 4 moves                n1, its master
//!     | ListPages{above 0} -----------------> |
//!     | <------------------------ PagesListed |   those in its page home
//!     | CopyPages ... <---------> CopiedPage  |
//!     | ListPages{above v5} ----------------> |   what was written back since, until there is hardly any
//!     | CloseShard -------------------------> |
//!     | <--- RecentChanges, ShardClosed{v9} - |   nothing is prepared, and all is written back
//!     | ListPages{above v7} ...               |   the last copies; then n2 takes the next opening
//!     | Serving ----------------------------> |   to all nodes; or from n1, if the shard does not move after all
//! ```

use crate::Held;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::{Data, Rest, Tail, messages};
use types::limits::{
    GOODBYE_TEXT_BYTES_MAX, GRANTED_SPACES_MAX, PAGE_BYTES_MAX, PAGES_PER_MESSAGE_MAX, RECENT_CHANGES_MAX,
};
use types::{Opening, PageId, Shard, SlotNo, Version};

/// A slot, and the version at which it has changed last.
pub type ChangedSlot = ((PageId, SlotNo), Version);

messages! {
    /// Wants to know which pages of a shard have a version above this one in the page home.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListPages {
        /// The shard.
        pub shard: Shard,
        /// The version.
        pub above: Version,
    }

    /// Pages of a shard with the versions that they have in the page home, which may come in several messages.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PagesListed {
        /// The shard.
        pub shard: Shard,
        /// Every page that is written back later will have a version above this one.
        pub through: Version,
        /// Whether these are the last.
        pub is_last: bool,
        /// The pages.
        pub pages: Vec<Held> as Rest<PAGES_PER_MESSAGE_MAX>,
    }

    /// Wants copies of pages as they are in the page home. Each is answered by a message of its own.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CopyPages {
        /// Their shard.
        pub shard: Shard,
        /// The pages.
        pub pages: Vec<PageId> as Rest<PAGES_PER_MESSAGE_MAX>,
    }

    /// A page as it is in the page home.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CopiedPage {
        /// The page.
        pub page: PageId,
        /// Its version there.
        pub version: Version,
        /// Its image, to be checked by [`types::ObjectPage::parse`].
        pub image: Bytes as Data<PAGE_BYTES_MAX>,
    }

    /// A page cannot be read, so its shard cannot move.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NotCopied {
        /// The page.
        pub page: PageId,
        /// Why not, for a person.
        pub why: Option<String> as Tail<GOODBYE_TEXT_BYTES_MAX>,
    }

    /// Hardly anything is left to copy of a shard: its master may close it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CloseShard {
        /// The shard.
        pub shard: Shard,
    }

    /// The slots of a shard that have changed lately, said right before [`ShardClosed`]: by them its next master judges
    /// what was read before the close.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecentChanges {
        /// The shard.
        pub shard: Shard,
        /// Every slot that changed after this count is named.
        pub pruned: Version,
        /// The slots, each with its version, which is above that count.
        pub changes: Vec<ChangedSlot> as Rest<RECENT_CHANGES_MAX>,
    }

    /// A shard is closed in order: nothing is prepared there, everything is written back, and its master serves it no
    /// longer. Pages that were written back since the last list must still be copied.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShardClosed {
        /// The shard.
        pub shard: Shard,
        /// The opening in which it was served.
        pub opening: Opening,
        /// The count at which it was closed.
        pub count: Version,
        /// For each space the first page that its master has not granted.
        pub next_pages: Vec<(u32, u32)> as Rest<GRANTED_SPACES_MAX>,
    }

    /// The master that says so serves a shard from now on, or serves it on and will not close it: transactions that it
    /// has found moving can be asked for again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Serving {
        /// The shard.
        pub shard: Shard,
    }
}

impl RecentChanges {
    /// Any slot may have changed at any time.
    pub fn unknown(shard: Shard) -> Self {
        Self { shard, pruned: Version(u64::MAX), changes: Vec::new() }
    }
}
