//! The bytes of the place messages.

use crate::field::check_count;
use crate::layout::{Layout, Meta, Reader};
use crate::store::field::Range;
use crate::{Limits, WireError};
use protocol::{Grant, Granted};
use types::limits::PAGES_PER_MESSAGE_MAX;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct GrantMeta {
    space: U32,
    count: U32,
}

impl Layout for Grant {
    const LIMITS: Limits = Limits::fields::<GrantMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&GrantMeta { space: self.space.into(), count: self.count.into() });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<GrantMeta>()?;
        Ok(Self { space: meta.space.get(), count: meta.count.get() })
    }
}

impl Layout for Granted {
    const LIMITS: Limits = Limits::fields::<()>().and_many::<Range>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("ranges of a grant", self.ranges.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put_all(self.ranges.iter().map(Range::from));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { ranges: reader.rest::<Range>()?.iter().map(Into::into).collect() })
    }
}
