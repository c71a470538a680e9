//! The extended attributes of users, as files have them.

use bytes::Bytes;
use rustix::fd::BorrowedFd;
use rustix::fs::{fgetxattr, flistxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The extended attributes that are published: those of users. Others belong to one system.
const PREFIX: &[u8] = b"user.";

/// The bytes of a longest list of names, and of a longest value (`xattr(7)`).
const BYTES_MAX: usize = 64 * 1024;

/// A reader of extended attributes. Its buffers serve all files of a scan: most files have no attributes, and zeroing
/// buffers for each would cost more than asking.
#[derive(Debug)]
pub(crate) struct Xattrs {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Xattrs {
    fn default() -> Self {
        Self { names: vec![0; BYTES_MAX], value: vec![0; BYTES_MAX] }
    }
}

impl Xattrs {
    /// Returns the extended attributes of users that an open file has, sorted by name. A file system that does not know
    /// such attributes has none.
    ///
    /// # Errors
    /// The extended attributes of the system.
    pub(crate) fn read(&mut self, file: BorrowedFd<'_>) -> Result<Vec<(Bytes, Bytes)>, Errno> {
        let length = match flistxattr(file, &mut self.names[..]) {
            Ok(length) => length,
            Err(Errno::NOTSUP | Errno::NODATA) => 0,
            Err(errno) => return Err(errno),
        };
        let mut xattrs = Vec::new();
        for name in self.names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(PREFIX)) {
            match fgetxattr(file, OsStr::from_bytes(name), &mut self.value[..]) {
                Ok(length) => {
                    xattrs.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(&self.value[..length])));
                }
                // It was removed after the list was read.
                Err(Errno::NODATA) => {}
                Err(errno) => return Err(errno),
            }
        }
        xattrs.sort_unstable();
        Ok(xattrs)
    }
}
