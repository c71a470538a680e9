//! How pages reach a cache, and how a cache tells that it let them go.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use types::{PageId, SlotNo, Version};

/// Wants pages. Each is answered on its own, by [`Page`] or [`LeftOut`], in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The pages: the first is wanted at once, the rest are prefetched and may be left out, under load or because there
    /// is no such page.
    pub pages: Vec<PageId>,
    /// The answer must reflect at least every change through this count: the master waits until it has applied it.
    pub at_least: Version,
    /// Counts the client's fetches. The answers name it: one to an earlier fetch can come late where peers help.
    pub number: u64,
    /// The pages that are to follow the first one, if any. A redirector has nothing follow.
    pub follow: Option<Follow>,
}

/// Wants the pages that an object refers to, those that the objects there refer to, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The object, which is in the page that is fetched.
    pub slot: SlotNo,
    /// How much may follow, in bytes; not zero.
    pub bytes: u32,
}

/// A page, as of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page.
    pub page: PageId,
    /// The count of the last update that changed it; zero for a page that was never written, be it that there is no
    /// such page yet.
    pub version: Version,
    /// The number of the fetch that it answers.
    pub number: u64,
    /// It comes from the store, which was asked for it after the fetch that it answers: what the store had committed
    /// when that fetch was sent has been told before this page.
    pub fresh: bool,
    /// The pages that follow it. They are answered like the other pages of the fetch, which did not name them.
    pub behind: Vec<PageId>,
    /// Its image, to be checked by [`types::ObjectPage::parse`].
    pub image: Bytes,
}

/// A page is not sent: the asker does not become its holder. A session that held it before continues holding it.
///
/// It was asked for ahead; or it is damaged in the store, and `damage` says so if a transaction waits for it. A group
/// gets this answer also for a page that does not exist, if it holds too many of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The page.
    pub page: PageId,
    /// The number of the fetch that this answers.
    pub number: u64,
    /// Why the store cannot read the page, for a person; `None` if it was left out for another reason.
    pub damage: Option<String>,
}

/// Pages that the sender no longer holds, and of which it has no fetch outstanding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The pages.
    pub pages: Vec<PageId>,
}
