//! The name of a chunk: the BLAKE3 hash of its bytes.

use core::fmt;

/// The name of a chunk. Equal names mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkHash([u8; Self::BYTES]);

impl ChunkHash {
    /// The length of a name, in bytes.
    pub const BYTES: usize = blake3::OUT_LEN;

    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The name as bytes, for formats.
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Parses 64 hexadecimal digits in lower case, as `Display` writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let hash = blake3::Hash::from_hex(text).ok()?;
        text.bytes().all(is_hex).then(|| Self(*hash.as_bytes()))
    }
}

impl From<[u8; Self::BYTES]> for ChunkHash {
    fn from(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn it_is_blake3_in_hexadecimal() {
        let text = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(ChunkHash::of(b"").to_string(), text);
        assert_eq!(ChunkHash::parse(text), Some(ChunkHash::of(b"")));
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('a', "g")] {
            assert_eq!(ChunkHash::parse(wrong), None, "{wrong}");
        }
    }
}
