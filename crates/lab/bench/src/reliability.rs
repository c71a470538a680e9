//! How long acknowledged writes of a write-back volume last, by the number of their copies: the reliability study that
//! the CoopReplica paper planned (section 4) and could not do.
//!
//! A Monte Carlo run lets hosts, devices, racks, homes and whole sites fail, and has the placement of copies
//! ([`machines::Circle`]) and takeovers ([`machines::TakeOver`]) done by the machines that a real volume has. Whether
//! an acknowledged write is lost is decided by what a takeover reads and brings home. Losses are rare, so they are
//! sought out and weighted. Where a Markov chain is exact the two are held against each other.
//!
//! | module | duty |
//! |---|---|
//! | `world` | how often things fail and how long they stay so, with sources |
//! | `fleet` | hosts, devices and racks: what of them works |
//! | `replicated` | a volume as the registry and home have it, and what was acknowledged |
//! | `answer` | the holders that have a write when it is answered, as the owner's machine does it |
//! | `takeover` | a takeover as the machine does it |
//! | `cycle` | a volume from its first failure until all is well again |
//! | `short` | a volume that lacks spare holders alone |
//! | `study` | from cycles to times to loss |
//! | `markov` | chains beside them, and RAIDs |
//! | `chance` | numbers |

mod answer;
mod chance;
mod cycle;
mod fleet;
pub mod markov;
mod replicated;
mod short;
mod study;
mod takeover;
mod world;

pub use study::{Estimate, estimate, lives};
pub use world::{Devices, Failure, Last, Rate, Takes, World, YEAR_S};
