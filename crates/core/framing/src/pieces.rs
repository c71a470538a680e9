//! Large messages on their way in: put together from their pieces.
//!
//! The pieces of a message, one after the other, are the frame that it would be; the number that they carry tells them
//! from those of others under way.

use crate::arrival::fill;
use crate::body::Arriving;
use crate::gate::{Believed, Gate};
use crate::layout::Reader;
use crate::{HEADER_BYTES, WireError};
use alloc::vec::Vec;
use machine::Parcel;
use types::limits::{PIECED_BYTES_MAX, PIECED_MESSAGES_MAX};

/// The messages in pieces under way. Room for each grows with what has arrived of it.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    under_way: Vec<Pieced>,
}

/// One message, as far as it has arrived.
#[derive(Debug)]
struct Pieced {
    number: u64,
    start: Vec<u8>,
    believed: Option<Believed>,
    meta: Vec<u8>,
    body: Arriving,
}

impl Pieces {
    /// Takes bytes of the message with this number, all of `arrived`; gives the message if that completes it. `gate`
    /// believes its header, or does not.
    pub(crate) fn take(
        &mut self,
        number: u64,
        mut arrived: &[u8],
        gate: &mut Gate,
    ) -> Result<Option<Parcel>, WireError> {
        let place = self.place(number)?;
        let pieced = &mut self.under_way[place];
        if pieced.believed.is_none() {
            fill(&mut pieced.start, HEADER_BYTES, &mut arrived);
            let Ok(start) = pieced.start.as_slice().try_into() else { return Ok(None) };
            pieced.believed = Some(gate.pieced(start)?);
            self.check_bytes()?;
        }
        let pieced = &mut self.under_way[place];
        let Believed { header, name } = pieced.believed.expect("just seen to");
        fill(&mut pieced.meta, header.meta_bytes as usize, &mut arrived);
        if pieced.meta.len() == header.meta_bytes as usize {
            pieced.body.fill(header.body_bytes as usize, &mut arrived);
        }
        if !arrived.is_empty() {
            return Err(WireError::Long { kind: name });
        }
        let is_complete = pieced.meta.len() + pieced.body.bytes() + HEADER_BYTES == header.frame_bytes();
        if !is_complete {
            return Ok(None);
        }
        let Pieced { meta, body, .. } = self.under_way.swap_remove(place);
        gate.codec().decode(header.kind, Reader::new(name, &meta, body.into())).map(Some)
    }

    /// Where the message with this number is put together.
    fn place(&mut self, number: u64) -> Result<usize, WireError> {
        if let Some(place) = self.under_way.iter().position(|pieced| pieced.number == number) {
            return Ok(place);
        }
        if self.under_way.len() >= PIECED_MESSAGES_MAX {
            return Err(WireError::Pieced { max: PIECED_MESSAGES_MAX });
        }
        let start = Vec::with_capacity(HEADER_BYTES);
        self.under_way.push(Pieced { number, start, believed: None, meta: Vec::new(), body: Arriving::default() });
        Ok(self.under_way.len() - 1)
    }

    fn check_bytes(&self) -> Result<(), WireError> {
        let announced = self.under_way.iter().filter_map(|pieced| pieced.believed);
        let got = announced.map(|believed| believed.header.frame_bytes()).sum();
        if got <= PIECED_BYTES_MAX { Ok(()) } else { Err(WireError::PiecedBytes { max: PIECED_BYTES_MAX, got }) }
    }
}
