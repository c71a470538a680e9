//! The key by which a member recognises its peers.

use core::{fmt, hint};

/// The key to where a member takes its peers: drawn at random by its driver, and told by its redirector to the
/// peers that should send it pages. Two are compared in the same time however much of them is the same, and
/// neither is ever printed.
#[derive(Clone, Copy, Default)]
pub struct PeerKey([u8; Self::BYTES]);

impl PeerKey {
    /// How long a key is: nobody guesses one.
    pub const BYTES: usize = 16;

    /// The key of these bytes.
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, as they stand on the wire.
    pub const fn bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl PartialEq for PeerKey {
    fn eq(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| hint::black_box(differing | (a ^ b)));
        differing == 0
    }
}

impl Eq for PeerKey {}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn every_bit_counts() {
        let key = PeerKey::new([0xA5; PeerKey::BYTES]);
        assert_eq!(key, PeerKey::new(key.bytes()));
        for bit in 0..8 * PeerKey::BYTES {
            let mut bytes = key.bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(key, PeerKey::new(bytes));
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", PeerKey::new([7; PeerKey::BYTES])), "PeerKey(..)");
    }
}
