//! The patterns of `--exclude`.

use crate::error::FilesError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;
use tree::ChunkHash;

/// Patterns of paths that are left out. One without a slash applies at every level, one with a slash from the top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclude {
    set: GlobSet,
    patterns: Vec<String>,
}

impl Exclude {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, FilesError> {
        let refused = |error: globset::Error| FilesError::Pattern(error.to_string());
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let trimmed = pattern.trim_matches('/');
            if trimmed.is_empty() || trimmed == "**" {
                return Err(FilesError::Pattern(format!("'{pattern}' leaves out everything")));
            }
            let anywhere = format!("**/{trimmed}");
            let glob = if pattern.trim_end_matches('/').contains('/') { trimmed } else { &anywhere };
            set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(refused)?);
        }
        Ok(Self { set: set.build().map_err(refused)?, patterns: patterns.to_vec() })
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// The hash of the patterns.
    pub(crate) fn hash(&self) -> ChunkHash {
        ChunkHash::of(self.patterns.join("\n").as_bytes())
    }
}
