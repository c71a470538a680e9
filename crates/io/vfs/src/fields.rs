//! Little-endian fields, read one after another from bytes that may be anything.

use bytes::Bytes;

/// The bytes ended before the field did, or a field has a value that it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The bytes that are left to read. Values are slices of the same memory.
#[derive(Debug)]
pub struct Fields(Bytes);

impl Fields {
    /// Begins at the first byte.
    pub fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<Bytes, Malformed> {
        if len > self.0.len() { Err(Malformed) } else { Ok(self.0.split_to(len)) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, _) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        let array = *head;
        let _ = self.0.split_to(N);
        Ok(array)
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Four bytes that must be zero.
    pub fn zero(&mut self) -> Result<(), Malformed> {
        if self.u32()? == 0 { Ok(()) } else { Err(Malformed) }
    }

    /// How many items follow that have at least `each` bytes.
    pub fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.saturating_mul(each) > self.0.len() { Err(Malformed) } else { Ok(count) }
    }

    /// Whether anything is left.
    pub fn more(&self) -> bool {
        !self.0.is_empty()
    }

    /// Nothing must be left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
