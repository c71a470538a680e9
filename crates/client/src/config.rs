//! What a user may tune.

use alloc::string::String;
use core::time::Duration;
use types::Broken;

/// What a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// Page images kept, in bytes.
    pub cache_bytes_limit: usize,
    /// The most pages that one fault prefetches; zero turns prefetching off.
    pub prefetch_pages_max: u32,
    /// Whether pages are fetched ahead that the application says it will read.
    pub reads_ahead: bool,
    /// Pages asked for in one grant; a client that uses them up quickly asks for more each time.
    pub grant_pages: u32,
    /// How long a transaction waits for a store that cannot be reached before it gives up.
    pub patience: Duration,
    /// The group to be in where that can be had, by its name.
    pub group: Option<String>,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_bytes_limit: 64 * 1024 * 1024,
            prefetch_pages_max: 16,
            reads_ahead: true,
            grant_pages: 64,
            patience: Duration::from_secs(30),
            group: None,
            broken: Broken::NONE,
        }
    }
}
