//! The bytes of the help messages.

use crate::field::{check_count, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::store::field;
use crate::{Limits, WireError};
use bytes::Bytes;
use protocol::{Arrived, Help, NoHelp, Page, PeerHello, PeerPage, Reachable};
use types::limits::{ADDRESS_BYTES_MAX, PAGE_BYTES_MAX, PAGES_PER_MESSAGE_MAX};
use types::{ClientId, PeerKey, Version};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const ADDRESS: &str = "bytes of an address";

impl Layout for Reachable {
    const LIMITS: Limits =
        Limits::fields::<[u8; PeerKey::BYTES]>().and_text(ADDRESS_BYTES_MAX).and_text(ADDRESS_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&self.key.bytes());
        put_text(meta, ADDRESS, &self.address, ADDRESS_BYTES_MAX)?;
        put_text(meta, ADDRESS, &self.eligible, ADDRESS_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = PeerKey::new(*reader.get::<[u8; PeerKey::BYTES]>()?);
        let address = get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?;
        Ok(Self { address, key, eligible: get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)? })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelpMeta {
    requester: U64,
    number: U64,
    through: U64,
    key: [u8; PeerKey::BYTES],
}

impl Layout for Help {
    const LIMITS: Limits =
        Limits::fields::<HelpMeta>().and_text(ADDRESS_BYTES_MAX).and_many::<U64>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a help", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&HelpMeta {
            requester: self.requester.0.into(),
            number: self.number.into(),
            through: self.through.0.into(),
            key: self.key.bytes(),
        });
        put_text(meta, ADDRESS, &self.address, ADDRESS_BYTES_MAX)?;
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<HelpMeta>()?;
        let (address, pages) = (get_text(reader, ADDRESS, ADDRESS_BYTES_MAX)?, reader.rest()?);
        // Behind a short address the header leaves room for more.
        check_count("pages of a help", pages.len(), PAGES_PER_MESSAGE_MAX)?;
        Ok(Self {
            requester: ClientId(meta.requester.get()),
            number: meta.number.get(),
            through: Version(meta.through.get()),
            address,
            key: PeerKey::new(meta.key),
            pages: pages.iter().map(|&page| field::to_page(page)).collect(),
        })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NoHelpMeta {
    requester: U64,
    number: U64,
}

impl Layout for NoHelp {
    const LIMITS: Limits = Limits::fields::<NoHelpMeta>().and_many::<U64>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a help", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&NoHelpMeta { requester: self.requester.0.into(), number: self.number.into() });
        meta.put_all(self.pages.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<NoHelpMeta>()?;
        let (requester, number) = (ClientId(meta.requester.get()), meta.number.get());
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

/// The image is the body. Nothing is said of whether the page is fresh, which a peer's never is.
impl Layout for PeerPage {
    const LIMITS: Limits = Limits::fields::<PeerPageMeta>().with_body(PAGE_BYTES_MAX);

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
    const LIMITS: Limits = Limits::fields::<()>().and_many::<[U64; 2]>(PAGES_PER_MESSAGE_MAX);

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

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PeerHelloMeta {
    client: U64,
    key: [u8; PeerKey::BYTES],
}

impl Layout for PeerHello {
    const LIMITS: Limits = Limits::fields::<PeerHelloMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&PeerHelloMeta { client: self.client.0.into(), key: self.key.bytes() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<PeerHelloMeta>()?;
        Ok(Self { client: ClientId(meta.client.get()), key: PeerKey::new(meta.key) })
    }
}
