//! Messages as bytes and back, as on a real network.

use crate::network::{End, Family};
use crate::violation::{Violation, ensure};
use framing::{Inbox, frames_of};
use machine::Parcel;

/// The bytes of a message to one end of a connection on the wire.
pub(crate) fn written(message: &Parcel, family: Family, to: End) -> Result<Vec<u8>, Violation> {
    let codec = family.codec(to.other());
    frames_of(codec, message).map_err(|error| broken(format!("{message:?} cannot be sent: {error}")))
}

/// Reads those bytes at the end that they were sent to: the result is what was sent.
pub(crate) fn read(mut bytes: &[u8], message: &Parcel, family: Family, to: End) -> Result<Parcel, Violation> {
    let codec = family.codec(to);
    let mut inbox = Inbox::within_session(codec);
    let read = inbox.next(&mut bytes).map_err(|error| broken(format!("{message:?} cannot be read: {error}")))?;
    ensure(read.as_ref() == Some(message) && bytes.is_empty(), "wire", || {
        format!("{message:?} came through as {read:?}, with {} bytes behind it", bytes.len())
    })?;
    read.ok_or_else(|| broken(format!("{message:?} did not come through")))
}

fn broken(text: String) -> Violation {
    Violation { checker: "wire", text }
}
