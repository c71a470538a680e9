//! The bytes of the fetch messages.

use crate::field::{self, check_count, flag};
use crate::layout::{Layout, Meta, Reader};
use crate::{Kind, WireError};
use bytes::Bytes;
use protocol::{Fetch, Follow, LeftOut, Page, Released};
use types::limits::{PAGE_BYTES_MAX, PAGES_BEHIND_MAX, PAGES_PER_MESSAGE_MAX};
use types::{SlotNo, Version};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

impl Layout for Fetch {
    const KIND: Kind = Kind::Fetch;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a fetch", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&[U64::new(self.at_least.0), U64::new(self.number)]);
        // No bytes: nothing is to follow.
        let Follow { slot, bytes } = self.follow.unwrap_or(Follow { slot: 0, bytes: 0 });
        meta.put(&[U32::new(bytes), U32::new(slot.into())]);
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [at_least, number] = reader.get::<[U64; 2]>()?;
        let (at_least, number) = (Version(at_least.get()), number.get());
        let [bytes, slot] = reader.get::<[U32; 2]>()?.map(U32::get);
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
    const KIND: Kind = Kind::Page;

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

impl Layout for LeftOut {
    const KIND: Kind = Kind::LeftOut;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&[field::page(self.page), self.number.into()]);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [page, number] = reader.get::<[U64; 2]>()?;
        Ok(Self { page: field::to_page(*page), number: number.get() })
    }
}

impl Layout for Released {
    const KIND: Kind = Kind::Released;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a release", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { pages: reader.rest()?.iter().map(|&page| field::to_page(page)).collect() })
    }
}
