//! Numbers that nobody else draws.

use vfs::{Doing, FileError};

/// A number from the system. 0 is nobody's.
pub(crate) fn random() -> Result<u64, FileError> {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(std::io::Error::from).doing("read", || "/dev/urandom".into())?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
