//! The settings of a site that its owner can change.

use crate::messages::{Consistency, WhenStale};
use core::time::Duration;

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
