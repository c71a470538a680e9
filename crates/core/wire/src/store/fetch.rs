//! The bytes of the fetch messages.

use crate::field::{check_count, cut, flag};
use crate::layout::{Layout, Meta, Reader};
use crate::store::field;
use crate::{Limits, WireError};
use alloc::borrow::ToOwned;
use bytes::Bytes;
use protocol::{Fetch, Follow, LeftOut, Page, Released};
use types::limits::{GOODBYE_TEXT_BYTES_MAX, PAGE_BYTES_MAX, PAGES_BEHIND_MAX, PAGES_PER_MESSAGE_MAX};
use types::{SlotNo, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FetchMeta {
    at_least: U64,
    number: U64,
    /// 0: nothing is to follow.
    follow_bytes: U32,
    follow_slot: U32,
}

impl Layout for Fetch {
    const LIMITS: Limits = Limits::fields::<FetchMeta>().and_many::<U64>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a fetch", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        let Follow { slot, bytes } = self.follow.unwrap_or(Follow { slot: 0, bytes: 0 });
        meta.put(&FetchMeta {
            at_least: self.at_least.0.into(),
            number: self.number.into(),
            follow_bytes: bytes.into(),
            follow_slot: u32::from(slot).into(),
        });
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<FetchMeta>()?;
        let (at_least, number) = (Version(meta.at_least.get()), meta.number.get());
        let (bytes, slot) = (meta.follow_bytes.get(), meta.follow_slot.get());
        check_count("slot of a fetch", slot as usize, SlotNo::MAX.into())?;
        let follow = (bytes > 0).then_some(Follow { slot: slot as SlotNo, bytes });
        let pages = reader.rest()?.iter().map(|&page| field::to_page(page)).collect();
        Ok(Self { pages, at_least, number, follow })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PageMeta {
    page: U64,
    version: U64,
    number: U64,
    fresh: U32,
}

/// The image is the body.
impl Layout for Page {
    const LIMITS: Limits = Limits::fields::<PageMeta>().and_many::<U64>(PAGES_BEHIND_MAX).with_body(PAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of a page", self.image.len(), PAGE_BYTES_MAX)?;
        check_count("pages behind a page", self.behind.len(), PAGES_BEHIND_MAX)?;
        let (page, version) = (field::page(self.page), self.version.0.into());
        meta.put(&PageMeta { page, version, number: self.number.into(), fresh: u32::from(self.fresh).into() });
        meta.put_all(self.behind.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.image)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<PageMeta>()?;
        let (page, version) = (field::to_page(meta.page), Version(meta.version.get()));
        let (number, fresh) = (meta.number.get(), flag("fresh flag", meta.fresh)?);
        let behind = reader.rest()?;
        check_count("pages behind a page", behind.len(), PAGES_BEHIND_MAX)?;
        let behind = behind.iter().map(|&page| field::to_page(page)).collect();
        Ok(Self { page, version, number, fresh, behind, image: reader.bytes_rest() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LeftOutMeta {
    page: U64,
    number: U64,
}

impl Layout for LeftOut {
    const LIMITS: Limits = Limits::fields::<LeftOutMeta>().and_up_to(GOODBYE_TEXT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&LeftOutMeta { page: field::page(self.page), number: self.number.into() });
        meta.put(cut(self.damage.as_deref().unwrap_or_default(), GOODBYE_TEXT_BYTES_MAX).as_bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<LeftOutMeta>()?;
        let text = core::str::from_utf8(reader.rest::<u8>()?).map_err(|_| WireError::Text)?;
        let damage = (!text.is_empty()).then(|| text.to_owned());
        Ok(Self { page: field::to_page(meta.page), number: meta.number.get(), damage })
    }
}

impl Layout for Released {
    const LIMITS: Limits = Limits::fields::<()>().and_many::<U64>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a release", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { pages: reader.rest()?.iter().map(|&page| field::to_page(page)).collect() })
    }
}
