//! The bytes of a goodbye, which every family has.

use crate::field::cut;
use crate::layout::{Layout, Meta, Reader};
use crate::{Limits, WireError};
use alloc::borrow::ToOwned;
use machine::Goodbye;
use types::GoodbyeReason;
use types::limits::GOODBYE_TEXT_BYTES_MAX;
use zerocopy::little_endian::U32;

/// A reason's number, then the text to the end of the meta.
impl Layout for Goodbye {
    const LIMITS: Limits = Limits::fields::<U32>().and_up_to(GOODBYE_TEXT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let reason =
            GoodbyeReason::ALL.iter().position(|&reason| reason == self.reason).expect("all reasons have a number");
        meta.put(&U32::new(reason as u32));
        // A text that is too long is told as far as it goes: it is for a person, and nobody is left to refuse it to.
        meta.put(cut(&self.text, GOODBYE_TEXT_BYTES_MAX).as_bytes());
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let got = reader.get::<U32>()?.get();
        let reason = GoodbyeReason::ALL.get(got as usize).copied();
        let reason = reason.ok_or(WireError::Code { what: "goodbye reason", got: got.into() })?;
        let text = core::str::from_utf8(reader.rest::<u8>()?).map_err(|_| WireError::Text)?;
        Ok(Self { reason, text: text.to_owned() })
    }
}
