//! Volumes: hosts that own a volume in turn, holders of copies, a home and a registry, around the real machines.
//!
//! ```text
//!   host  ==== link, FIFO ==== holder      copies, counts, lists
//!     |  \
//!     |   +---- calls ----> registry       compare-and-set; what is watched comes late, and in order
//!     +-------- calls ----> home           write-backs and fences, behind whatever the host has called before
//! ```
//! Each step one thing happens, drawn from the seed: an application writes, flushes, reads or resizes, a message or a
//! call arrives, a log is synced, home does a piece of work, a process dies and comes back, with its device or without,
//! a host is cut off, or sleeps. At the end everything is well again, and everything that waits must be answered.
//!
//! | file | |
//! |---|---|
//! | `scenario` | what kind of day it is |
//! | `blocks` | a volume's blocks, each told by the write that it has |
//! | `host` | an owner or a takeover, its log, and what is on its way to it |
//! | `peer` | a holder and its log |
//! | `house` | home's blocks, its journal, and what a crash leaves of them |
//! | `truth` | what was promised, what was read, and what must be true |
//! | `step` | what can happen next |
//! | `applications`, `traffic`, `calls`, `trouble` | the steps: applications, links, homes and the registry, faults |
//! | `wishes` | what a host's machine wants done |
//! | `run` | one run from its seed to its verdict |

mod applications;
mod blocks;
mod calls;
mod host;
mod house;
mod peer;
mod run;
mod scenario;
mod step;
mod traffic;
mod trouble;
mod truth;
mod wishes;

pub(crate) use run::run_seed;
