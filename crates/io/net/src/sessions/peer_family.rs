//! The messages between peers, as a machine's process gives them to the host.

use framing::Codec;
use machine::{Goodbye, Parcel};
use types::PeerKey;

/// How a machine's connections with peers look.
#[derive(Clone, Copy, Debug)]
pub struct PeerFamily {
    /// The codec of either end.
    pub codec: &'static dyn Codec,
    /// Lets a peer in by its first message, if that has the key.
    pub admit: Admit,
}

/// Whether a connection's first message has the key that lets a peer in.
pub type Admit = fn(PeerKey, &Parcel) -> Result<(), Goodbye>;
