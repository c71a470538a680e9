//! The settings that a user may tune.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use types::{Broken, Limits};

/// When a redirector takes its group over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It is there to lead: when it starts, and whenever nobody does.
    Lead,
    /// It is there for when nobody leads.
    StandBy,
    /// It runs beside a member, which finds out whether anybody leads.
    Assist,
}

/// The settings that a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// The group's name.
    pub group: String,
    /// Where members reach the redirector.
    pub address: String,
    /// Where the store is reached; members are told.
    pub store: Vec<String>,
    /// The redirector's duty.
    pub duty: Duty,
    /// A member that is silent for this long is dead; and a redirector that has not reached its store for this long
    /// sends its members away.
    pub silence: Duration,
    /// How long a helper may take before the next one is asked.
    pub help_within: Duration,
    /// Values of commits under way that are kept for the other members, in bytes; beyond, they only hear what changed.
    pub retained_bytes_limit: usize,
    /// Page images that the redirector keeps itself, in bytes: a standby cache. None by default.
    pub cache_bytes_limit: usize,
    /// How much goes into one message, and how much is kept for others.
    pub limits: Limits,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            group: String::new(),
            address: String::new(),
            store: Vec::new(),
            duty: Duty::Lead,
            silence: Duration::from_millis(1500),
            help_within: Duration::from_millis(10),
            retained_bytes_limit: 64 * 1024 * 1024,
            cache_bytes_limit: 0,
            limits: Limits::SHIPPED,
            broken: Broken::NONE,
        }
    }
}
