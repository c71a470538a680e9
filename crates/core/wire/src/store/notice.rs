//! The bytes of the notice messages.

use crate::field::check_count;
use crate::layout::{Layout, Meta, Reader};
use crate::store::field::{self, Txn};
use crate::{Limits, WireError};
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::{Ack, Notice, Notices};
use types::Version;
use types::limits::{MESSAGE_BYTES_MAX, NOTICES_PER_MESSAGE_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One notice. Behind it stand the words of its slots, then its changes; their values are in the body.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NoticeMeta {
    page: U64,
    prev: U64,
    version: U64,
    txn: Txn,
    words: U16,
    /// How many changes, or [`NO_DATA`].
    changes: U16,
}

/// In place of the count of changes: the notice invalidates. No page has that many slots.
const NO_DATA: u16 = u16::MAX;
const _: () = assert!(SLOTS_MAX < NO_DATA as usize);

impl Layout for Notices {
    const LIMITS: Limits = Limits::fields::<U64>().and_more().with_body(MESSAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("notices of a batch", self.items.len(), NOTICES_PER_MESSAGE_MAX)?;
        meta.put(&U64::new(self.through.0));
        self.items.iter().try_for_each(|item| put_notice(meta, item))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter().filter_map(|item| item.data.as_deref()).flat_map(field::values)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let through = Version(reader.get::<U64>()?.get());
        Ok(Self { through, items: get_notices(reader)? })
    }
}

/// Notices up to the end of the meta.
pub(crate) fn get_notices(reader: &mut Reader<'_>) -> Result<Vec<Notice>, WireError> {
    let (mut items, mut changes_left) = (Vec::new(), TXN_CHANGES_MAX);
    while !reader.is_at_end() {
        check_count("notices of a batch", items.len() + 1, NOTICES_PER_MESSAGE_MAX)?;
        items.push(get_notice(reader, &mut changes_left)?);
    }
    Ok(items)
}

pub(crate) fn put_notice(meta: &mut Meta<'_>, notice: &Notice) -> Result<(), WireError> {
    meta.put(&NoticeMeta {
        page: field::page(notice.page),
        prev: notice.prev.0.into(),
        version: notice.version.0.into(),
        txn: notice.txn.into(),
        words: (notice.slots.as_words().len() as u16).into(),
        changes: notice.data.as_ref().map_or(NO_DATA, |changes| changes.len() as u16).into(),
    });
    field::put_slots(meta, &notice.slots);
    notice.data.as_deref().map_or(Ok(()), |changes| field::put_changes(meta, changes))
}

fn get_notice(reader: &mut Reader<'_>, changes_left: &mut usize) -> Result<Notice, WireError> {
    let meta = reader.get::<NoticeMeta>()?;
    Ok(Notice {
        page: field::to_page(meta.page),
        prev: Version(meta.prev.get()),
        version: Version(meta.version.get()),
        slots: field::get_slots(reader, meta.words.get().into())?,
        txn: (&meta.txn).into(),
        data: match meta.changes.get() {
            NO_DATA => None,
            count => Some(field::get_changes(reader, count.into(), changes_left)?),
        },
    })
}

impl Layout for Ack {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.through.0));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { through: Version(reader.get::<U64>()?.get()) })
    }
}
