//! The counts of changes that a store names.

use crate::{Outcome, ToClient};
use types::Version;

impl ToClient {
    /// The highest count that it names: its receiver has learned of the store as it was there.
    pub fn newest_named(&self) -> Version {
        let newest = |counts: &mut dyn Iterator<Item = Version>| counts.max().unwrap_or_default();
        match self {
            Self::Invalidations(invalidations) => invalidations
                .through
                .max(newest(&mut invalidations.items.iter().map(|invalidation| invalidation.version))),
            Self::Page(page) => page.version,
            Self::Resumed(resumed) => resumed.through,
            Self::Revalidated(revalidated) => {
                newest(&mut revalidated.items.iter().map(|invalidation| invalidation.version))
            }
            Self::CommitReply(reply) => match &reply.outcome {
                Outcome::Committed { pages } => newest(&mut pages.iter().map(|advance| advance.version)),
                Outcome::Refused(_) | Outcome::Unknown => Version::ZERO,
            },
            _ => Version::ZERO,
        }
    }
}
