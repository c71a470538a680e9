//! The bytes of the help messages.

use crate::field::{self, check_count, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::{Kind, WireError};
use bytes::Bytes;
use protocol::{Arrived, Help, NoHelp, Page, PeerHello, PeerPage, Reachable};
use types::limits::{ADDRESS_BYTES_MAX, PAGE_BYTES_MAX, PAGES_PER_MESSAGE_MAX};
use types::{ClientId, PeerKey, Version};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const ADDRESS: &str = "bytes of an address";

fn get_key(reader: &mut Reader<'_>) -> Result<PeerKey, WireError> {
    reader.get::<[u8; PeerKey::BYTES]>().copied().map(PeerKey::new)
}

impl Layout for Reachable {
    const KIND: Kind = Kind::Reachable;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&self.key.bytes());
        put_text(meta, ADDRESS, &self.address, ADDRESS_BYTES_MAX)?;
        put_text(meta, ADDRESS, &self.eligible, ADDRESS_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = get_key(reader)?;
        let address = get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?;
        Ok(Self { address, key, eligible: get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)? })
    }
}

impl Layout for Help {
    const KIND: Kind = Kind::Help;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a help", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&[U64::new(self.requester.0), U64::new(self.number), U64::new(self.through.0)]);
        meta.put(&self.key.bytes());
        put_text(meta, ADDRESS, &self.address, ADDRESS_BYTES_MAX)?;
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [requester, number, through] = reader.get::<[U64; 3]>()?;
        let (requester, number, through) = (ClientId(requester.get()), number.get(), Version(through.get()));
        let key = get_key(reader)?;
        let (address, pages) = (get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?, reader.rest()?);
        // Behind a short address the header leaves room for more.
        check_count("pages of a help", pages.len(), PAGES_PER_MESSAGE_MAX)?;
        Ok(Self {
            requester,
            number,
            through,
            address,
            key,
            pages: pages.iter().map(|&page| field::to_page(page)).collect(),
        })
    }
}

impl Layout for NoHelp {
    const KIND: Kind = Kind::NoHelp;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a help", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&[U64::new(self.requester.0), U64::new(self.number)]);
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let [requester, number] = reader.get::<[U64; 2]>()?;
        let (requester, number) = (ClientId(requester.get()), number.get());
        Ok(Self { requester, number, pages: reader.rest()?.iter().map(|&page| field::to_page(page)).collect() })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PeerPageMeta {
    requester: U64,
    number: U64,
    through: U64,
    page: U64,
    version: U64,
}

/// The image is the body. Nothing is said of whether the page is fresh, which a neighbour's never is.
impl Layout for PeerPage {
    const KIND: Kind = Kind::PeerPage;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("bytes of a page", self.page.image.len(), PAGE_BYTES_MAX)?;
        meta.put(&PeerPageMeta {
            requester: self.requester.0.into(),
            number: self.page.number.into(),
            through: self.through.0.into(),
            page: field::page(self.page.page),
            version: self.page.version.0.into(),
        });
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::once(&self.page.image)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<PeerPageMeta>()?;
        let (page, version) = (field::to_page(meta.page), Version(meta.version.get()));
        Ok(Self {
            requester: ClientId(meta.requester.get()),
            through: Version(meta.through.get()),
            page: Page {
                page,
                version,
                number: meta.number.get(),
                fresh: false,
                behind: [].into(),
                image: reader.bytes_rest(),
            },
        })
    }
}

impl Layout for Arrived {
    const KIND: Kind = Kind::Arrived;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages that arrived", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put_all(self.pages.iter().map(|&(page, number)| [field::page(page), number.into()]));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let pages = reader.rest::<[U64; 2]>()?;
        Ok(Self { pages: pages.iter().map(|&[page, number]| (field::to_page(page), number.get())).collect() })
    }
}

impl Layout for PeerHello {
    const KIND: Kind = Kind::PeerHello;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.client.0));
        meta.put(&self.key.bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let client = ClientId(reader.get::<U64>()?.get());
        Ok(Self { client, key: get_key(reader)? })
    }
}
