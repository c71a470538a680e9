//! Messages as bytes and back, as on a real network.

use crate::network::{End, Purpose};
use crate::violation::{Violation, ensure};
use protocol::Message;
use wire::{Inbox, frames_of};

/// Sends a message through bytes: what comes out is what went in.
pub(crate) fn pass(message: &Message, purpose: Purpose, to: End) -> Result<Message, Violation> {
    let bytes = written(message)?;
    let reader = match (purpose, to) {
        (Purpose::Peer(_), _) => wire::End::Peer,
        (_, End::Dialer) => wire::End::Client,
        (_, End::Listener) => wire::End::Store,
    };
    let mut arrived = &bytes[..];
    let read = Inbox::within_session(reader).next(&mut arrived);
    let read = read.map_err(|error| broken(format!("{message:?} cannot be read: {error}")))?;
    ensure(read.as_ref() == Some(message) && arrived.is_empty(), "wire", || {
        format!("{message:?} came through as {read:?}, with {} bytes behind it", arrived.len())
    })?;
    read.ok_or_else(|| broken(format!("{message:?} did not come through")))
}

/// What a message is on the wire.
pub(crate) fn written(message: &Message) -> Result<Vec<u8>, Violation> {
    frames_of(message).map_err(|error| broken(format!("{message:?} cannot be sent: {error}")))
}

fn broken(text: String) -> Violation {
    Violation { checker: "wire", text }
}
