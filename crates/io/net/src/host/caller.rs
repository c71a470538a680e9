//! A caller of a machine that receives for itself.

use std::fmt;

/// A caller that reads what a machine's server sends by itself while it waits.
pub(crate) trait Caller: fmt::Debug + Send + Sync {
    /// Reads until `woken` says that the calling thread is waited for elsewhere. At once if another thread reads.
    fn read(&self, woken: &dyn Fn() -> bool);

    /// A caller was woken, or a transaction has ended, that the reading thread may be waiting for.
    fn wake(&self);
}
