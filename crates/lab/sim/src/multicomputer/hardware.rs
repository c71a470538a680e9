//! A machine in figures.

use core::time::Duration;

/// A multicomputer whose nodes are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Instructions that a node's processor carries out in a second.
    pub instructions_per_second: f64,
    /// Instructions for each page that a message or a call names: it is found and locked.
    pub page_instructions: u64,
    /// Instructions to copy a page, or to find or apply what differs in one.
    pub copy_instructions: u64,
    /// Instructions of a request to a disk.
    pub disk_instructions: u64,
    /// The time that a message takes of the processor at each of its ends.
    pub message: Duration,
    /// The time that a message takes between the links of two nodes.
    pub wire: Duration,
    /// Bytes in a second on the way out of a node, and on the way in.
    pub link_bytes_per_second: f64,
    /// The least that a delta takes in a message and in the log, in bytes.
    pub delta_bytes_min: u64,
    /// The disks.
    pub disks: Disks,
    /// A node's memory.
    pub memory: Memory,
}

/// Disks. A request waits for those before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disks {
    /// Disks that all nodes share, with files striped over them.
    Shared {
        /// How many disks there are.
        count: usize,
        /// The bytes of a stripe.
        stripe_bytes: u64,
        /// Bytes in a second of each disk.
        bytes_per_second: f64,
        /// Bytes in a second of all disks together.
        total_bytes_per_second: f64,
        /// The time until the arm is where it should be. A request that continues the one before it needs none.
        seek: Duration,
        /// The time until the disk has turned to the place.
        rotation: Duration,
    },
    /// A disk for each node, which works on several requests at the same time and carries the bytes of one after the
    /// other.
    Own {
        /// Bytes in a second.
        bytes_per_second: f64,
        /// The time of a read.
        read: Duration,
        /// The time until a write is durable.
        write: Duration,
        /// How many writes, one after the other, make a log durable.
        flush_writes: u32,
    },
}

/// The memory of a node that is for pages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The client's cache.
    pub client: usize,
    /// The store's cache.
    pub store: usize,
    /// Deltas that wait for write-back.
    pub mob: usize,
}
