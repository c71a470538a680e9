//! The outcome of a repair: where a sound copy of a block was found, or why the block stays as it is.

use serde::{Deserialize, Serialize};

/// Blocks that a scrub found damaged, after a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The first block: its offset in bytes is 4096 times this.
    pub block: u64,
    /// The number of blocks from there.
    pub blocks: u64,
    /// The place that was damaged, for people.
    pub at: String,
    /// The place of the copy that it was restored from, for people; `None` if it was not.
    pub from: Option<String>,
    /// Why it was not.
    pub why: Option<String>,
}

impl Repair {
    /// A block at home, or in the cache, that was restored.
    pub(crate) fn restored(block: u32, at: &str, from: impl Into<String>) -> Self {
        Self { block: block.into(), blocks: 1, at: at.to_owned(), from: Some(from.into()), why: None }
    }

    /// A block at home, or in the cache, that stays as it is.
    pub(crate) fn left(block: u32, at: &str, why: impl Into<String>) -> Self {
        Self { block: block.into(), blocks: 1, at: at.to_owned(), from: None, why: Some(why.into()) }
    }

    /// Whether it was restored.
    pub fn is_done(&self) -> bool {
        self.from.is_some()
    }

    /// Its text for people.
    pub fn text(&self) -> String {
        let Self { block, blocks, at, from, why } = self;
        let which =
            if *blocks == 1 { format!("block {block}") } else { format!("blocks {block} to {}", block + blocks - 1) };
        match (from, why) {
            (Some(from), _) => format!("{which} {at}: repaired from {from}"),
            (None, why) => format!("{which} {at}: not repaired: {}", why.as_deref().unwrap_or("the reason is unknown")),
        }
    }
}

pub(crate) const AT_HOME: &str = "at home";
pub(crate) const IN_CACHE: &str = "in the cache";

pub(crate) const NO_COPY: &str =
    "no copy has the checksum of what was written: restore it from a backup, or write it again through the volume";
