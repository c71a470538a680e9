//! The bytes of the lease messages.

use crate::field::check_count;
use crate::layout::{Layout, Meta, Reader};
use crate::store::field::{self, Txn};
use crate::{Limits, WireError};
use protocol::{Intent, Leased, Promise};
use types::limits::{LEASED_SPACES_MAX, TXN_PAGES_MAX};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LeasedMeta {
    nonce: U64,
    lease_ms: U32,
}

impl Layout for Leased {
    const LIMITS: Limits = Limits::fields::<LeasedMeta>().and_many::<U32>(LEASED_SPACES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("leased spaces", self.spaces.len(), LEASED_SPACES_MAX)?;
        meta.put(&LeasedMeta { nonce: self.nonce.into(), lease_ms: self.lease_ms.into() });
        meta.put_all(self.spaces.iter().map(|&space| U32::new(space)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<LeasedMeta>()?;
        let (nonce, lease_ms) = (meta.nonce.get(), meta.lease_ms.get());
        Ok(Self { nonce, lease_ms, spaces: reader.rest::<U32>()?.iter().map(|space| space.get()).collect() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IntentPage {
    page: U64,
    words: U16,
}

/// The transaction, then page by page the words of the slots, to the end of the meta.
impl Layout for Intent {
    const LIMITS: Limits = Limits::fields::<Txn>().and_more();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of an intent", self.pages.len(), TXN_PAGES_MAX)?;
        meta.put(&Txn::from(self.txn));
        for (page, slots) in &self.pages {
            meta.put(&IntentPage { page: field::page(*page), words: (slots.as_words().len() as u16).into() });
            field::put_slots(meta, slots);
        }
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let txn = reader.get::<Txn>()?.into();
        let mut pages = alloc::vec::Vec::new();
        while !reader.is_at_end() {
            check_count("pages of an intent", pages.len() + 1, TXN_PAGES_MAX)?;
            let page = reader.get::<IntentPage>()?;
            let words = usize::from(page.words.get());
            pages.push((field::to_page(page.page), field::get_slots(reader, words)?));
        }
        Ok(Self { txn, pages })
    }
}

impl Layout for Promise {
    const LIMITS: Limits = Limits::fields::<Txn>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&Txn::from(self.txn));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { txn: reader.get::<Txn>()?.into() })
    }
}
