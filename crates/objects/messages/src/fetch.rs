//! How pages reach a cache, and how a cache tells that it let them go.

use crate::PerShard;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::check_count;
use framing::{Data, Field, FieldLayout, Limits, Meta, Reader, Rest, Tail, WireError, messages};
use types::limits::{GOODBYE_TEXT_BYTES_MAX, PAGE_BYTES_MAX, PAGES_BEHIND_MAX, PAGES_PER_MESSAGE_MAX};
use types::{PageId, SlotNo, Vector, Version};

messages! {
    /// Wants pages. Each is answered on its own, by [`Page`] or [`LeftOut`], in any order.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Fetch {
        /// The answer must reflect at least every change through these counts: the master waits until it has applied
        /// them.
        pub at_least: Vector as PerShard,
        /// Counts the client's fetches. The answers name it: one to an earlier fetch can come late where peers help.
        pub number: u64,
        /// The pages that are to follow the first one, if any. A redirector has nothing follow.
        pub follow: Option<Follow> as MayFollow,
        /// The pages: the first is wanted at once, the rest are prefetched and may be left out, under load or because
        /// there is no such page.
        pub pages: Vec<PageId> as Rest<PAGES_PER_MESSAGE_MAX>,
    }
}

/// Wants the pages that an object refers to, those that the objects there refer to, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The object, which is in the page that is fetched.
    pub slot: SlotNo,
    /// How much may follow, in bytes; not zero.
    pub bytes: u32,
}

messages! {
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
        /// It comes from the store, which was asked for it after the fetch that it answers: what the store had
        /// committed when that fetch was sent has been told before this page.
        pub fresh: bool,
        /// The pages that follow it. They are answered like the other pages of the fetch, which did not name them.
        pub behind: Vec<PageId> as Rest<PAGES_BEHIND_MAX>,
        /// Its image, to be checked by [`types::ObjectPage::parse`].
        pub image: Bytes as Data<PAGE_BYTES_MAX>,
    }

    /// A page is not sent: the asker does not become its holder. A session that held it before continues holding it.
    ///
    /// It was asked for ahead; or it is damaged in the store, and `damage` says so if a transaction waits for it. A
    /// group gets this answer also for a page that does not exist, if it holds too many of those.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LeftOut {
        /// The page.
        pub page: PageId,
        /// The number of the fetch that this answers.
        pub number: u64,
        /// Why the store cannot read the page, for a person; `None` if it was left out for another reason.
        pub damage: Option<String> as Tail<GOODBYE_TEXT_BYTES_MAX>,
    }

    /// Pages that the sender no longer holds, and of which it has no fetch outstanding.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Released {
        /// The pages.
        pub pages: Vec<PageId> as Rest<PAGES_PER_MESSAGE_MAX>,
    }
}

/// How many bytes are to follow, where zero says that nothing is, and the object's slot.
#[derive(Debug)]
pub struct MayFollow;

impl FieldLayout<Option<Follow>> for MayFollow {
    const LIMITS: Limits = Limits::bytes(2 * u32::BYTES);

    fn put(follow: &Option<Follow>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let (bytes, slot) = follow.map_or((0, 0), |Follow { slot, bytes }| (bytes, slot));
        (bytes, u32::from(slot)).put(meta);
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Option<Follow>, WireError> {
        let (bytes, slot) = <(u32, u32)>::get(what, reader)?;
        check_count("slot of a fetch", slot as usize, SlotNo::MAX.into())?;
        Ok((bytes > 0).then_some(Follow { slot: slot as SlotNo, bytes }))
    }
}
