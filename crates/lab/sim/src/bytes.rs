//! Messages as bytes and back, as on a real network.

use crate::network::{End, Purpose};
use crate::violation::{Violation, ensure};
use framing::{Codec, Inbox, frames_of};
use machine::Parcel;

/// Sends a message to one end of a connection through bytes: what comes out is what went in.
pub(crate) fn pass(message: &Parcel, purpose: Purpose, to: End) -> Result<Parcel, Violation> {
    let bytes = written(message, purpose, to)?;
    let mut arrived = &bytes[..];
    let read = Inbox::within_session(codec(purpose, to)).next(&mut arrived);
    let read = read.map_err(|error| broken(format!("{message:?} cannot be read: {error}")))?;
    ensure(read.as_ref() == Some(message) && arrived.is_empty(), "wire", || {
        format!("{message:?} came through as {read:?}, with {} bytes behind it", arrived.len())
    })?;
    read.ok_or_else(|| broken(format!("{message:?} did not come through")))
}

/// The bytes of a message to one end of a connection on the wire.
pub(crate) fn written(message: &Parcel, purpose: Purpose, to: End) -> Result<Vec<u8>, Violation> {
    let codec = codec(purpose, to.other());
    frames_of(codec, message).map_err(|error| broken(format!("{message:?} cannot be sent: {error}")))
}

/// The family that a connection carries, at one end.
fn codec(purpose: Purpose, end: End) -> &'static dyn Codec {
    match (purpose, end) {
        (Purpose::Peer(_), _) => messages::PEER,
        (Purpose::Uplink | Purpose::Trunk, End::Dialer) => messages::CLIENT,
        (Purpose::Uplink | Purpose::Trunk, End::Listener) => messages::SERVER,
    }
}

fn broken(text: String) -> Violation {
    Violation { checker: "wire", text }
}
