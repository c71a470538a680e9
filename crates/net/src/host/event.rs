//! All that can wake a host.

use protocol::Parcel;
use store::DiskDone;
use types::PeerKey;

/// Something that has happened, which the node is to be told of. Beside these a node is called by its application, under
/// its lock, and by whoever asks it something.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection is up.
    Up(node::Link),
    /// A connection is gone, or could not be made.
    Down(node::Link),
    /// A sign of life: some of a message has arrived, or the peer takes what is sent to it.
    Heard(node::Link),
    /// All that was sent has left, as the node has awaited.
    Room(node::Link),
    /// A message has arrived.
    Message(node::Link, Parcel),
    /// Neighbours are taken from now on, at this address and with this key.
    Reachable(String, PeerKey),
    /// Disk work is done.
    Disk(DiskDone),
    /// The node's time has come.
    Timeout,
    /// The store or the redirector is to be closed.
    Close,
}
