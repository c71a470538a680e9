//! Early hints that wait to be sent on a connection.

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of hints for one connection that wait to be sent. Further ones are dropped.
const HINTS_BYTES_MAX: usize = 16 * 1024;

/// Hints that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Looked at for each read and write, so without the lock.
    are_there: AtomicBool,
    bytes: Mutex<BytesMut>,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, BytesMut> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, status: StatusCode, fields: &HeaderMap) {
        write_head(&mut self.lock(), status, fields);
        self.are_there.store(true, Relaxed);
    }

    /// Removes all hints and returns them.
    pub(crate) fn take(&self) -> BytesMut {
        if self.are_there.load(Relaxed) && self.are_there.swap(false, Relaxed) {
            std::mem::take(&mut *self.lock())
        } else {
            BytesMut::new()
        }
    }
}

/// Writes the head of a response, if there is room for it.
fn write_head(out: &mut BytesMut, status: StatusCode, fields: &HeaderMap) {
    let before = out.len();
    let mut add = |part: &[u8]| out.extend_from_slice(part);
    add(b"HTTP/1.1 ");
    add(status.as_str().as_bytes());
    add(b" ");
    add(status.canonical_reason().unwrap_or("Informational").as_bytes());
    add(b"\r\n");
    for (name, value) in fields {
        [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].into_iter().for_each(&mut add);
    }
    add(b"\r\n");
    if out.len() > HINTS_BYTES_MAX {
        out.truncate(before);
    }
}
