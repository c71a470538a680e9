//! The simulator: whole nodes in virtual time, over a network and disks that fail, under checkers that look at every
//! step. One seed draws everything, so one seed reproduces a run.
//!
//! ```text
//!   Engine                    processes, connections, lines, disks, timers, clocks, faults: event by event
//!     StoreRun <- Scenario    the store's family on the day that a seed draws
//!       History, Ledger       what applications saw and were told; what the disk made durable, on each branch
//!       check/*               the invariants of docs/protocol.md, one file each
//!     Processes               machines of any family by name, as a test arranges them
//! ```
//! Other kinds of run have a small world of their own. `cluster`: several nodes that are one store.
//! `reorder`: two masters' streams, out of order, around the real cache. `volumes`: a volume with its owners, holders,
//! home and registry. [`multicomputer`]: nodes without faults, on processors, links and disks that take their time.
//!
//! The machines are the real ones, hosted by the same `machine::Hosted` as over TCP and files. Those of one process
//! hear each other at once or a little later, as threads would take that from one to the other. The simulator has a
//! driver of its own and uses neither `net` nor `disk`.

mod actor;
mod branches;
mod bytes;
mod check;
mod cluster;
mod crash_point;
mod disk;
mod drive;
mod engine;
mod enumerate;
mod executor;
mod faults;
mod history;
mod layout;
mod ledger;
mod links;
pub mod multicomputer;
#[cfg(feature = "mutants")]
mod mutants;
mod network;
mod ordered;
mod process;
mod processes;
mod queue;
mod reorder;
mod rng;
mod run;
mod runner;
mod scenario;
pub mod sites;
mod store_faults;
mod store_run;
mod storm;
mod tasks;
mod trace;
mod value;
mod violation;
mod volumes;

pub use cluster::opposite_roles;
pub use crash_point::CrashPoint;
pub use drive::Record;
pub use enumerate::{Enumeration, enumerate_crashes};
pub use executor::Simulation;
pub use faults::Fault;
pub use layout::{Costs, Distances, Layout, Mishap, Stored, Traffic};
pub use machines::Rule as VolumeRule;
#[cfg(feature = "mutants")]
pub use mutants::{
    Mutant, OF_NAMED_TESTS, OF_NAMED_VOLUME_TESTS, VolumeMutant, mutants, run_volume_seed, volume_mutants,
};
pub use network::{Carried, Family, SharedLine};
pub use ordered::Content;
pub use processes::{Disks, Line, Processes};
pub use run::Report;
pub use runner::{Kind, Options, Summary, run_seeds};
pub use scenario::Race;
pub use violation::Violation;
