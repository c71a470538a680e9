//! The settings of a client.

use alloc::string::String;
use core::time::Duration;
use types::{Broken, Limits, ObjectId};

/// The settings that a user may tune.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    /// Page images kept, in bytes.
    pub cache_bytes_limit: usize,
    /// The most pages that one fault prefetches; zero turns prefetching off.
    pub prefetch_pages_max: u32,
    /// The bytes that a connection surely carries in its first round trip: a new session prefetches no more at once.
    pub first_window_bytes: usize,
    /// Whether the store is asked to have pages follow that one which is fetched refers to; not without prefetching.
    pub follows: bool,
    /// Whether pages are fetched ahead that the application says it will read.
    pub reads_ahead: bool,
    /// The object that every application reads first: a client that knows nothing yet asks for it together with its
    /// session, and not a round trip later.
    pub first: Option<ObjectId>,
    /// Pages asked for in one grant; a client that uses them up quickly asks for more each time.
    pub grant_pages: u32,
    /// How long a transaction waits for an answer of the store before it gives up.
    pub patience: Duration,
    /// Whether a transaction that has only read commits without asking, where the store has answered since it began.
    pub commits_fresh: bool,
    /// Whether nothing may be changed: the store is in this process, and its directory cannot be written.
    pub read_only: bool,
    /// The group to be in where that can be had, by its name.
    pub group: Option<String>,
    /// Where members would reach the redirector that stands by beside this client, as `host:port`; empty if there is
    /// none.
    pub eligible: String,
    /// How much goes into one message, and how much is kept for others.
    pub limits: Limits,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_bytes_limit: 64 * 1024 * 1024,
            prefetch_pages_max: 16,
            // Ten segments of Ethernet (RFC 6928).
            first_window_bytes: 10 * 1448,
            follows: true,
            reads_ahead: true,
            first: None,
            grant_pages: 64,
            patience: Duration::from_secs(30),
            commits_fresh: true,
            read_only: false,
            group: None,
            eligible: String::new(),
            limits: Limits::SHIPPED,
            broken: Broken::NONE,
        }
    }
}
