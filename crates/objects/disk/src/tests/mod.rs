//! The tests that `storage.md` owes, over the files of `vfs::memory`: they fail when they are told to, and a crash
//! forgets or tears what was not synced.

mod crash;
mod damage;
mod earlier;
mod golden;
mod homes;
mod lack;
mod node;
mod real;
mod roundtrip;
