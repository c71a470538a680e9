//! The tests that `storage.md` owes, over the files of `memory.rs`: they fail when they are told to, and a crash forgets
//! or tears what was not synced.

mod crash;
mod damage;
mod golden;
mod lack;
pub(crate) mod memory;
mod node;
mod real;
mod roundtrip;
