//! Numbers drawn by the system, each unlike any other.

use crate::{Doing, FileError};

/// Draws a number. 0 is never drawn.
///
/// # Errors
/// The system has none.
pub fn random() -> Result<u64, FileError> {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(std::io::Error::from).doing("read", || "/dev/urandom".into())?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
