//! Messages as bytes and back, as on a real network.

use crate::network::{End, Purpose};
use crate::violation::{Violation, ensure};
use protocol::Message;
use wire::{Batch, Inbox, Outbox};

/// Sends a message through bytes: what comes out is what went in.
pub(crate) fn pass(message: &Message, purpose: Purpose, to: End) -> Result<Message, Violation> {
    let broken = |text: String| Violation { checker: "wire", text };
    let mut outbox = Outbox::new();
    outbox.push(message).map_err(|error| broken(format!("{message:?} cannot be sent: {error}")))?;
    let (mut bytes, mut batch) = (Vec::new(), Batch::default());
    while !outbox.is_empty() {
        outbox.next(&mut batch);
        bytes.extend(batch.chunks().flatten());
        batch = Batch::default();
    }
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
