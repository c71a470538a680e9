//! The home that the helper goes by.

use coherence::{AttachedHome, Site};
use std::net::SocketAddr;

/// A home, which is there as long as the helper is.
#[derive(Debug)]
pub(crate) enum Home {
    /// In this process, with its hub or the way to it.
    Own(Site),
    /// In another process.
    Shared(AttachedHome),
}

impl Home {
    /// Where its hub takes the homes of others.
    pub(crate) fn hub_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Own(site) => site.address(),
            Self::Shared(_) => None,
        }
    }

    /// Why the helper must not answer from what it knows.
    pub(crate) fn troubles(&self) -> Vec<String> {
        match self {
            Self::Own(site) => site.updates().troubles(),
            Self::Shared(home) => {
                home.trouble().map(|why| format!("the home is not reached: {why}")).into_iter().collect()
            }
        }
    }
}
