//! How a group is at its store: a redirector's session is one session for all of its members.
//!
//! ```text
//!   redirector                            store
//!     | Hello{features: GROUP} ----------> |   transactions and pages of any client may come on it
//!     | Resume, Resumed                   |   as for any session
//!     | Lead{group, epoch} --------------> |   of two redirectors of one group the higher epoch lives
//!     | <----------------- Leader{epoch}   |
//!     | Revalidate{number, pages} -------> |   a member has come with a cache
//!     | <-- Revalidated{number, items}     |   what of it has changed
//! ```

use crate::bytes::values;
use crate::invalidation::{get_invalidations, put_invalidation};
use crate::{Held, Invalidation, PerShard};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::{check_count, get_text, put_text};
use framing::{Field, Layout, Limits, Meta, Reader, Rest, Text, WireError, messages};
use types::limits::{
    ADDRESS_BYTES_MAX, GROUP_NAME_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, NOTICES_PER_MESSAGE_MAX,
    PAGES_PER_MESSAGE_MAX, STORE_ADDRESSES_MAX,
};
use types::{ClientId, PageId, Vector};

/// In [`crate::Hello::features`]: the session is a redirector's, for a whole group. In [`crate::Welcome::features`]: a
/// redirector answers, and the session is one of its members'.
pub const GROUP: u64 = 1;

/// In [`crate::Welcome::features`], beside [`GROUP`]: the store has several nodes. Each of them has its own lives,
/// which the redirector compares itself, so its welcome names none.
pub const SEVERAL: u64 = 4;

messages! {
    /// A member has come with pages from an earlier session, perhaps with somebody else: what of them has changed?
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Revalidate {
        /// Comes back in the answer.
        pub number: u64,
        /// The member has learned of every change to them through here.
        pub horizon: Vector as PerShard,
        /// The pages. The group holds them from now on.
        pub pages: Vec<Held> as Rest<PAGES_PER_MESSAGE_MAX>,
    }
}

/// The changes of a member's pages. Invalidations of everything before have gone before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revalidated {
    /// The question's.
    pub number: u64,
    /// Pages that changed, slot by slot.
    pub items: Vec<Invalidation>,
    /// Pages that changed in ways the store no longer knows slot by slot: the member drops them.
    pub dropped: Vec<PageId>,
}

messages! {
    /// A member has left the group for good: what the store keeps for it may be forgotten when the grace is over.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Departed {
        /// The member.
        pub client: ClientId,
    }

    /// A redirector takes a group over, or continues with it. Answered by [`Leader`]: if that is another one, the
    /// session ends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Lead {
        /// The epoch that it takes the group over with: one more than it knows of, or 1; its own if it continues.
        pub epoch: u64,
        /// The group's name.
        pub group: String as Text<GROUP_NAME_BYTES_MAX>,
        /// Where members reach it; never empty.
        pub address: String as Text<ADDRESS_BYTES_MAX>,
    }

    /// Wants to know who leads a group. Anyone may.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FindLeader {
        /// The group's name.
        pub group: String as Text<GROUP_NAME_BYTES_MAX>,
    }

    /// The leader of a group, or the last one, not longer ago than the store's grace.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Leader {
        /// Its epoch, or the last one; zero if it is not known.
        pub epoch: u64,
        /// The group's name.
        pub group: String as Text<GROUP_NAME_BYTES_MAX>,
        /// Where members reach its redirector; empty if nobody leads it now.
        pub address: String as Text<ADDRESS_BYTES_MAX>,
    }
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

/// The pages to drop stand before the invalidations, which continue to the end of the meta.
impl Layout for Revalidated {
    const LIMITS: Limits = Limits::bytes(2 * u64::BYTES).and_more().with_body(MESSAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages to drop", self.dropped.len(), PAGES_PER_MESSAGE_MAX)?;
        check_count("invalidations of a batch", self.items.len(), NOTICES_PER_MESSAGE_MAX)?;
        (self.number, self.dropped.len() as u64).put(meta);
        self.dropped.iter().for_each(|page| page.put(meta));
        self.items.iter().try_for_each(|item| put_invalidation(meta, item))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter().filter_map(|item| item.data.as_deref()).flat_map(values)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (number, dropped) = <(u64, u64)>::get("answer", reader)?;
        let dropped = usize::try_from(dropped).unwrap_or(usize::MAX);
        check_count("pages to drop", dropped, PAGES_PER_MESSAGE_MAX)?;
        let dropped = reader.list(dropped, PageId::BYTES, |reader| PageId::get("page to drop", reader))?;
        Ok(Self { number, dropped, items: get_invalidations(reader)? })
    }
}

/// The bytes of an empty text.
pub(crate) const TEXT_BYTES_MIN: usize = u16::BYTES;

/// The most that an address takes, with its length.
pub(crate) const ADDRESS_BYTES: usize = TEXT_BYTES_MIN + ADDRESS_BYTES_MAX;

/// The name, the redirector's address, the store's, then of each member its id and address.
impl Layout for Members {
    const LIMITS: Limits = Limits::bytes(u64::BYTES + 2 * u32::BYTES)
        .and_text(GROUP_NAME_BYTES_MAX)
        .and_text(ADDRESS_BYTES_MAX)
        .and_up_to(STORE_ADDRESSES_MAX * ADDRESS_BYTES + MEMBERS_MAX * (ClientId::BYTES + ADDRESS_BYTES));

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("addresses of a store", self.store.len(), STORE_ADDRESSES_MAX)?;
        check_count("members of a group", self.members.len(), MEMBERS_MAX)?;
        (self.epoch, (self.store.len() as u32, self.members.len() as u32)).put(meta);
        put_text(meta, "bytes of a group's name", &self.group, GROUP_NAME_BYTES_MAX)?;
        put_address(meta, &self.address)?;
        self.store.iter().try_for_each(|address| put_address(meta, address))?;
        self.members.iter().try_for_each(|member| {
            member.client.put(meta);
            put_address(meta, &member.address)
        })
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (epoch, (store, members)) = <(u64, (u32, u32))>::get("members", reader)?;
        let (store, members) = (store as usize, members as usize);
        check_count("addresses of a store", store, STORE_ADDRESSES_MAX)?;
        check_count("members of a group", members, MEMBERS_MAX)?;
        let member = |reader: &mut Reader<'_>| {
            Ok(Member { client: ClientId::get("member", reader)?, address: get_address(reader)? })
        };
        Ok(Self {
            epoch,
            group: get_text(reader, "bytes of a group's name", GROUP_NAME_BYTES_MAX)?,
            address: get_address(reader)?,
            store: reader.list(store, TEXT_BYTES_MIN, get_address)?,
            members: reader.list(members, ClientId::BYTES + TEXT_BYTES_MIN, member)?,
        })
    }
}

pub(crate) fn put_address(meta: &mut Meta<'_>, address: &str) -> Result<(), WireError> {
    put_text(meta, "bytes of an address", address, ADDRESS_BYTES_MAX)
}

pub(crate) fn get_address(reader: &mut Reader<'_>) -> Result<String, WireError> {
    get_text(reader, "bytes of an address", ADDRESS_BYTES_MAX)
}
