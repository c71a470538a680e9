//! The settings of a site that its owner can change.

use crate::messages::{Consistency, WhenStale};
use core::time::Duration;

/// Revisions that a site keeps if nothing else was said.
const KEEP: u32 = 10;

/// Settings of a site that are changed, or those with which it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteSettings {
    /// How many of the newest revisions are kept, from the next publish on; 10 of a site that is created.
    pub keep: Option<u32>,
    /// How long a server that follows the site may serve what it was told last without asking again. A store gives no
    /// longer leases than its own, which is also that of a site without this setting.
    pub lease: Option<Duration>,
    /// The consistency that readers see.
    pub consistency: Option<Consistency>,
    /// Whether a server serves the site when its lease is over.
    pub when_stale: Option<WhenStale>,
}

impl SiteSettings {
    /// The settings of a site that is created with these.
    pub fn or_usual(self) -> Self {
        let (keep, consistency) = (self.keep.unwrap_or(KEEP), self.consistency.unwrap_or_default());
        let when_stale = self.when_stale.unwrap_or_default();
        Self { keep: Some(keep), lease: self.lease, consistency: Some(consistency), when_stale: Some(when_stale) }
    }
}
