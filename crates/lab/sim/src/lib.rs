//! The simulator: whole nodes in virtual time, over a network and a disk that fail, under checkers that look at every
//! step. One seed draws everything, so one seed reproduces a run.
//!
//! ```text
//!   Scenario <- seed      what kind of day it is
//!   World                 event by event: processes, network, disk, faults
//!     History, Ledger     what applications saw and were told; what the disk made durable, on each branch of the store
//!     check/*             the invariants of docs/protocol.md, one file each
//! ```
//! For machines of other doors there are [`Processes`]: any of them, by name, on disks and lines of their own.
//!
//! Beside it stand two more kinds of run. `reorder`: two masters' streams, out of order, around the real cache.
//! `volumes`: a volume with its owners, holders, home and registry.
//!
//! The machines are the real ones, hosted by the same `machine::Hosted` as over TCP and files. Those of one process
//! hear each other at once or a little later, as threads would take that from one to the other. The simulator has a
//! driver of its own and sees neither `net` nor `disk`.

mod actor;
mod branches;
mod bytes;
mod check;
mod disk;
mod disk_driver;
mod enumerate;
mod executor;
mod faults;
mod history;
mod layout;
mod ledger;
mod links;
#[cfg(feature = "mutants")]
mod mutants;
mod network;
mod process;
mod processes;
mod queue;
mod reorder;
mod rng;
mod run;
mod runner;
mod scenario;
mod trace;
mod value;
mod violation;
mod volumes;
mod world;

pub use enumerate::{CrashPoint, Enumeration, enumerate_crashes};
pub use executor::Simulation;
pub use layout::{Costs, Distances, Layout, Mishap, Stored, Traffic};
pub use machines::Rule as VolumeRule;
#[cfg(feature = "mutants")]
pub use mutants::{
    Mutant, OF_NAMED_TESTS, OF_NAMED_VOLUME_TESTS, VolumeMutant, mutants, run_volume_seed, volume_mutants,
};
pub use processes::{Disks, Family, Line, Processes, Record};
pub use run::Report;
pub use runner::{Kind, Options, Summary, run_seeds};
pub use scenario::Race;
pub use violation::Violation;
