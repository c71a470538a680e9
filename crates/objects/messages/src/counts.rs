//! The counts of changes that a store names.

use crate::{Invalidations, Outcome, ToClient};
use types::{PageId, Sharding, Vector, Version};

impl ToClient {
    /// The highest counts that it names: its receiver has learned of the store as it was there.
    pub fn newest_named(&self, sharding: Sharding) -> Vector {
        let newest = |versions: &mut dyn Iterator<Item = (PageId, Version)>| newest(sharding, versions);
        match self {
            Self::Invalidations(batch) => batch.newest_changes(sharding).joined(&batch.through),
            Self::Page(page) => newest(&mut [(page.page, page.version)].into_iter()),
            Self::Resumed(resumed) => resumed.through.clone(),
            Self::Revalidated(revalidated) => {
                newest(&mut revalidated.items.iter().map(|item| (item.page, item.version)))
            }
            Self::CommitReply(reply) => match &reply.outcome {
                Outcome::Committed { pages } => {
                    newest(&mut pages.iter().map(|advance| (advance.page, advance.version)))
                }
                Outcome::Refused(_) | Outcome::Unknown => Vector::new(),
            },
            _ => Vector::new(),
        }
    }
}

impl Invalidations {
    /// The highest counts of its changes.
    pub fn newest_changes(&self, sharding: Sharding) -> Vector {
        newest(sharding, &mut self.items.iter().map(|item| (item.page, item.version)))
    }
}

/// The highest of these versions for each shard.
fn newest(sharding: Sharding, versions: &mut dyn Iterator<Item = (PageId, Version)>) -> Vector {
    versions.map(|(page, version)| (sharding.of(page), version)).collect()
}
