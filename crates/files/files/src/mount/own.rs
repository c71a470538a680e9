//! The changes of this mount, as the requests of the kernel see them.

use super::nodes::Place;
use super::views::Mounted;
use super::writes::{Draft, link_of};
use crate::error::FilesError;
use crate::line::lock;
use fuser::Errno;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tree::{Entry, Name, Path};

impl Mounted {
    /// The file that is being written at an inode.
    pub(super) fn draft(&self, inode: u64) -> Option<Arc<Draft>> {
        self.writes.as_ref()?.draft(inode)
    }

    /// The file of a name that no revision has.
    pub(super) fn new_at(&self, directory: u64, name: &Name) -> Option<Arc<Draft>> {
        self.writes.as_ref()?.new_at(directory, name)
    }

    /// How many names a file of the newest revision has.
    pub(super) fn count_names(&self, entry: &Entry) -> Option<u32> {
        let (writes, link) = (self.writes.as_ref()?, link_of(entry)?);
        let names = lock(&writes.links).names(&self.origin.source(), self.last()?.root, link).ok()?;
        Some((names.len() as u32).max(1))
    }

    /// The path of an inode, as it was known last.
    pub(super) fn path_of(&self, inode: u64) -> Path {
        let place = lock(&self.nodes).get(inode).map(|node| node.place.clone());
        match place {
            Some(Place::In { directory, name, .. }) => self.path_in(directory, OsStr::from_bytes(name.as_bytes())),
            Some(Place::Revision(_)) | None => Path::ROOT,
        }
    }

    /// The path of a name in a directory: of the directory, if it cannot be a name.
    pub(super) fn path_in(&self, directory: u64, name: &OsStr) -> Path {
        let above = lock(&self.nodes).path(directory).map(|path| path.below).unwrap_or_default();
        let names = above.into_iter().map(|(_, name)| name).chain(Name::new(name.as_bytes()));
        names.fold(Path::ROOT, |path, name| path.join(&name))
    }

    /// Reports something to people and operators.
    pub(super) fn report(&self, report: String) {
        let of_writes = self.writes.as_ref().map(|writes| &writes.reports);
        let of_passthrough = self.passthrough.as_ref().map(|passthrough| &passthrough.reports);
        if let Some(reports) = of_writes.or(of_passthrough) {
            // The receiver may be gone: reports are optional.
            let _ = reports.send(report.clone());
        }
        self.say(report);
    }

    /// The error for a program whose changes could not be made durable.
    pub(super) fn unsynced(&self, error: &FilesError) -> Errno {
        self.report(format!("private changes are not durable: {error}"));
        Errno::EIO
    }

    /// Begins passthrough, if it was asked for. Without it, files are read as usual.
    pub(super) fn begin_passthrough(&self, kernel: impl AsFd) {
        if let Some(Err(why)) = self.passthrough.as_ref().map(|passthrough| passthrough.begin(kernel)) {
            self.report(format!("files are read without passthrough: {why}"));
        }
    }

    /// Holds changes of this mount back.
    pub(super) fn without_changes<T>(&self, work: impl FnOnce() -> T) -> T {
        let _changing = self.writes.as_ref().map(|writes| lock(&writes.changing));
        work()
    }
}
