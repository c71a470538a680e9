//! A crash at a chosen disk operation, and the work that was under way when it came.

/// Where a crash is put, and what the disk keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Right after this disk operation, counted from 1: work that is submitted, and work that is done.
    pub operation: u64,
    /// So many of the unsynced appends are there nevertheless, if there are as many.
    pub appends: usize,
    /// The install that is under way, if there is one, is there.
    pub install: bool,
}

/// The work that was under way when a crash came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) appends: usize,
    pub(crate) install: bool,
}

impl UnderWay {
    /// All that may be left of it, from nothing on.
    pub(crate) fn survivals(self) -> impl Iterator<Item = (bool, usize)> {
        let installs = 1 + usize::from(self.install);
        [false, true].into_iter().take(installs).flat_map(move |install| (0..=self.appends).map(move |n| (install, n)))
    }
}
