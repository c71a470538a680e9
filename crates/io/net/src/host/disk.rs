//! A machine's disk, whatever its work is.

use machine::{Disk, DiskDone, Opaque};
use std::sync::Arc;

/// A disk whose work is carried to it unseen.
pub(super) trait AnyDisk: Send + Sync {
    /// [`Disk::submit`].
    ///
    /// # Panics
    /// If the work is no work for this disk: its machine has another one.
    fn submit(&self, work: Opaque) -> bool;

    /// [`Disk::flush`].
    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool;

    /// [`Disk::waits`].
    fn waits(&self) -> bool;

    /// [`Disk::on_done`].
    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>);

    /// [`Disk::on_failed`].
    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>);
}

/// A disk of one kind of work.
pub(super) struct Typed<D: ?Sized>(pub(super) Arc<D>);

impl<D: Disk + ?Sized> AnyDisk for Typed<D> {
    fn submit(&self, work: Opaque) -> bool {
        let work = work.open().unwrap_or_else(|work| panic!("this disk does no work such as {work:?}"));
        self.0.submit(work)
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        self.0.flush(&mut |work| done(DiskDone::new(work)))
    }

    fn waits(&self) -> bool {
        self.0.waits()
    }

    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>) {
        self.0.on_done(Box::new(move |work| done(DiskDone::new(work))));
    }

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        self.0.on_failed(failed);
    }
}
