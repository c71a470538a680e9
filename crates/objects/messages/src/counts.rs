//! The counts of changes that a store names.

use crate::{Outcome, ToClient};
use types::{PageId, Vector, Version};

impl ToClient {
    /// The highest counts that it names: its receiver has learned of the store as it was there.
    pub fn newest_named(&self) -> Vector {
        match self {
            Self::Invalidations(invalidations) => {
                let items = invalidations.items.iter().map(|item| (item.page, item.version));
                newest(invalidations.through.clone(), items)
            }
            Self::Page(page) => newest(Vector::new(), [(page.page, page.version)]),
            Self::Resumed(resumed) => resumed.through.clone(),
            Self::Revalidated(revalidated) => {
                newest(Vector::new(), revalidated.items.iter().map(|item| (item.page, item.version)))
            }
            Self::CommitReply(reply) => match &reply.outcome {
                Outcome::Committed { pages } => {
                    newest(Vector::new(), pages.iter().map(|advance| (advance.page, advance.version)))
                }
                Outcome::Refused(_) | Outcome::Unknown => Vector::new(),
            },
            _ => Vector::new(),
        }
    }
}

/// Raises the counts to these versions of pages.
fn newest(mut counts: Vector, versions: impl IntoIterator<Item = (PageId, Version)>) -> Vector {
    for (page, version) in versions {
        counts.raise(page.shard(), version);
    }
    counts
}
