//! The check of a home whose file may not be the one that was left: all blocks are compared with their checksums.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The progress of a check.
#[derive(Clone, Copy, Debug)]
pub struct HomeCheck<'a> {
    /// The file with the checksums.
    pub path: &'a Path,
    /// The bytes of the volume that were compared so far.
    pub bytes: u64,
    /// The size of the volume.
    pub bytes_total: u64,
    /// The blocks that differ from what was written there, so far.
    pub damaged: u64,
}

type Told = dyn Fn(HomeCheck<'_>) + Send + Sync;

/// A listener for the progress of checks. The default one does nothing.
#[derive(Clone, Default)]
pub struct CheckProgress(Option<Arc<Told>>);

impl CheckProgress {
    /// Calls `told` at the start and at the end of each check, and every 64 MiB.
    pub fn new(told: impl Fn(HomeCheck<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }
}

impl fmt::Debug for CheckProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckProgress").finish_non_exhaustive()
    }
}

/// The facts by which a home judges its file. By default it does not know the machine's boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(super) boot: u32,
    progress: CheckProgress,
}

impl Checks {
    /// Those of a machine in this boot.
    pub(crate) fn new(boot: u32, progress: CheckProgress) -> Self {
        Self { boot, progress }
    }

    pub(super) fn tell(&self, check: HomeCheck<'_>) {
        if let Some(told) = &self.progress.0 {
            told(check);
        }
    }
}
