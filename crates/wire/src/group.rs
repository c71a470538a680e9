//! The bytes of the group messages.

use crate::field::{self, HeldPage, check_count, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::notice::{get_notices, put_notice};
use crate::{Kind, WireError};
use alloc::string::String;
use bytes::Bytes;
use protocol::{Departed, FindLeader, Lead, Leader, Member, Members, Revalidate, Revalidated};
use types::limits::{
    ADDRESS_BYTES_MAX, GROUP_NAME_BYTES_MAX, MEMBERS_MAX, NOTICES_PER_MESSAGE_MAX, PAGES_PER_MESSAGE_MAX,
    STORE_ADDRESSES_MAX,
};
use types::{ClientId, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const GROUP: &str = "bytes of a group's name";
const ADDRESS: &str = "bytes of an address";

impl Layout for Revalidate {
    const KIND: Kind = Kind::Revalidate;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages to revalidate", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&[U64::new(self.number), U64::new(self.horizon.0)]);
        meta.put_all(self.pages.iter().map(HeldPage::from));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [number, horizon] = reader.get::<[U64; 2]>()?;
        let pages = reader.rest::<HeldPage>()?.iter().map(Into::into).collect();
        Ok(Self { number: number.get(), horizon: Version(horizon.get()), pages })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RevalidatedMeta {
    number: U64,
    dropped: U64,
}

/// The pages to drop stand before the notices, which go on to the end of the meta.
impl Layout for Revalidated {
    const KIND: Kind = Kind::Revalidated;

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
    const KIND: Kind = Kind::Departed;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.client.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { client: ClientId(reader.get::<U64>()?.get()) })
    }
}

/// Who leads a group, or wants to: what [`Lead`] and [`Leader`] have in common.
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
    const KIND: Kind = Kind::Lead;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_leader(meta, self.epoch, &self.group, &self.address)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (epoch, group, address) = get_leader(reader)?;
        Ok(Self { group, epoch, address })
    }
}

impl Layout for FindLeader {
    const KIND: Kind = Kind::FindLeader;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_text(meta, GROUP, &self.group, GROUP_NAME_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { group: get_text(reader, GROUP, GROUP_NAME_BYTES_MAX)? })
    }
}

impl Layout for Leader {
    const KIND: Kind = Kind::Leader;

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
    const KIND: Kind = Kind::Members;

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
            store: reader.list(store, 2, address)?,
            members: reader.list(members, 10, member)?,
        })
    }
}
