//! The bytes of the group messages.

use crate::field::{check_count, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::length::TEXT_BYTES_MIN;
use crate::store::field::{self, HeldPage};
use crate::store::notice::{get_notices, put_notice};
use crate::{Limits, WireError};
use alloc::string::String;
use bytes::Bytes;
use protocol::{Departed, FindLeader, Lead, Leader, Member, Members, Revalidate, Revalidated};
use types::limits::{
    ADDRESS_BYTES_MAX, GROUP_NAME_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, NOTICES_PER_MESSAGE_MAX,
    PAGES_PER_MESSAGE_MAX, STORE_ADDRESSES_MAX,
};
use types::{ClientId, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const GROUP: &str = "bytes of a group's name";
const ADDRESS: &str = "bytes of an address";

/// The most that an address takes, with its length.
const ADDRESS_BYTES: usize = TEXT_BYTES_MIN + ADDRESS_BYTES_MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RevalidateMeta {
    number: U64,
    horizon: U64,
}

impl Layout for Revalidate {
    const LIMITS: Limits = Limits::fields::<RevalidateMeta>().and_many::<HeldPage>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages to revalidate", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&RevalidateMeta { number: self.number.into(), horizon: self.horizon.0.into() });
        meta.put_all(self.pages.iter().map(HeldPage::from));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<RevalidateMeta>()?;
        let pages = reader.rest::<HeldPage>()?.iter().map(Into::into).collect();
        Ok(Self { number: meta.number.get(), horizon: Version(meta.horizon.get()), pages })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RevalidatedMeta {
    number: U64,
    dropped: U64,
}

/// The pages to drop stand before the notices, which continue to the end of the meta.
impl Layout for Revalidated {
    const LIMITS: Limits = Limits::fields::<RevalidatedMeta>().and_more().with_body(MESSAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages to drop", self.dropped.len(), PAGES_PER_MESSAGE_MAX)?;
        check_count("notices of a batch", self.items.len(), NOTICES_PER_MESSAGE_MAX)?;
        meta.put(&RevalidatedMeta { number: self.number.into(), dropped: (self.dropped.len() as u64).into() });
        meta.put_all(self.dropped.iter().map(|&page| field::page(page)));
        self.items.iter().try_for_each(|item| put_notice(meta, item))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter().filter_map(|item| item.data.as_deref()).flat_map(field::values)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<RevalidatedMeta>()?;
        let dropped = usize::try_from(meta.dropped.get()).unwrap_or(usize::MAX);
        check_count("pages to drop", dropped, PAGES_PER_MESSAGE_MAX)?;
        Ok(Self {
            number: meta.number.get(),
            dropped: reader.many(dropped)?.iter().map(|&page| field::to_page(page)).collect(),
            items: get_notices(reader)?,
        })
    }
}

impl Layout for Departed {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.client.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { client: ClientId(reader.get::<U64>()?.get()) })
    }
}

/// The lengths of [`Lead`] and [`Leader`]: the epoch, the group's name, the address.
const LEADER: Limits = Limits::fields::<U64>().and_text(GROUP_NAME_BYTES_MAX).and_text(ADDRESS_BYTES_MAX);

/// The fields that [`Lead`] and [`Leader`] have in common: who leads a group, or wants to.
fn put_leader(meta: &mut Meta<'_>, epoch: u64, group: &str, address: &str) -> Result<(), WireError> {
    meta.put(&U64::new(epoch));
    put_text(meta, GROUP, group, GROUP_NAME_BYTES_MAX)?;
    put_text(meta, ADDRESS, address, ADDRESS_BYTES_MAX)
}

/// The inverse of [`put_leader`].
fn get_leader(reader: &mut Reader<'_>) -> Result<(u64, String, String), WireError> {
    let epoch = reader.get::<U64>()?.get();
    let group = get_text(reader, GROUP, GROUP_NAME_BYTES_MAX)?;
    Ok((epoch, group, get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?))
}

impl Layout for Lead {
    const LIMITS: Limits = LEADER;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_leader(meta, self.epoch, &self.group, &self.address)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (epoch, group, address) = get_leader(reader)?;
        Ok(Self { group, epoch, address })
    }
}

impl Layout for FindLeader {
    const LIMITS: Limits = Limits::fields::<()>().and_text(GROUP_NAME_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_text(meta, GROUP, &self.group, GROUP_NAME_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { group: get_text(reader, GROUP, GROUP_NAME_BYTES_MAX)? })
    }
}

impl Layout for Leader {
    const LIMITS: Limits = LEADER;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_leader(meta, self.epoch, &self.group, &self.address)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (epoch, group, address) = get_leader(reader)?;
        Ok(Self { group, epoch, address })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MembersMeta {
    epoch: U64,
    store: U32,
    members: U32,
}

/// The name, the redirector's address, the store's, then of each member its id and address.
impl Layout for Members {
    const LIMITS: Limits = Limits::fields::<MembersMeta>()
        .and_text(GROUP_NAME_BYTES_MAX)
        .and_text(ADDRESS_BYTES_MAX)
        .and_up_to(STORE_ADDRESSES_MAX * ADDRESS_BYTES + MEMBERS_MAX * (size_of::<U64>() + ADDRESS_BYTES));

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("addresses of a store", self.store.len(), STORE_ADDRESSES_MAX)?;
        check_count("members of a group", self.members.len(), MEMBERS_MAX)?;
        let (store, members) = (self.store.len() as u32, self.members.len() as u32);
        meta.put(&MembersMeta { epoch: self.epoch.into(), store: store.into(), members: members.into() });
        put_text(meta, GROUP, &self.group, GROUP_NAME_BYTES_MAX)?;
        put_text(meta, ADDRESS, &self.address, ADDRESS_BYTES_MAX)?;
        self.store.iter().try_for_each(|address| put_text(meta, ADDRESS, address, ADDRESS_BYTES_MAX))?;
        self.members.iter().try_for_each(|member| {
            meta.put(&U64::new(member.client.0));
            put_text(meta, ADDRESS, &member.address, ADDRESS_BYTES_MAX)
        })
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<MembersMeta>()?;
        let (store, members) = (meta.store.get() as usize, meta.members.get() as usize);
        check_count("addresses of a store", store, STORE_ADDRESSES_MAX)?;
        check_count("members of a group", members, MEMBERS_MAX)?;
        let group = get_text(reader, GROUP, GROUP_NAME_BYTES_MAX)?;
        let leader = get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?;
        let address = |reader: &mut Reader<'_>| get_text(reader, ADDRESS, ADDRESS_BYTES_MAX);
        let member = |reader: &mut Reader<'_>| {
            let client = ClientId(reader.get::<U64>()?.get());
            Ok(Member { client, address: address(reader)? })
        };
        Ok(Self {
            group,
            epoch: meta.epoch.get(),
            address: leader,
            store: reader.list(store, TEXT_BYTES_MIN, address)?,
            members: reader.list(members, size_of::<U64>() + TEXT_BYTES_MIN, member)?,
        })
    }
}
