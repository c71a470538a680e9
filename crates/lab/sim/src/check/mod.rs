//! The checkers, one file for each invariant of `docs/protocol.md`. Each looks at what is there and says whether it
//! may be; none of them changes anything.

pub(crate) mod answers;
pub(crate) mod durability;
pub(crate) mod frames;
pub(crate) mod history;
pub(crate) mod holders;
pub(crate) mod horizon;
pub(crate) mod never_back;
pub(crate) mod no_visible_abort;
pub(crate) mod one_moment;
pub(crate) mod stable_reads;
pub(crate) mod turns;
pub(crate) mod unknown;
pub(crate) mod vp;
