//! A window: what a reader has to know of memory that another machine shares.

/// Memory that a machine shares. A window that is made up gives a reader words that mean nothing, or none: it writes
/// nowhere but to memory that it has for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The endpoint's name, as the provider has it.
    pub name: Vec<u8>,
    /// Where the memory begins, as the provider counts.
    pub base: u64,
    /// The key to it.
    pub key: u64,
}

/// The longest name of an endpoint, in bytes: an address with a port is one of 28.
pub const NAME_BYTES_MAX: usize = 256;
