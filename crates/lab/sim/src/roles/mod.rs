//! Roles: commits over the shards of several nodes, with the real coordinators, masters and sequencers, and messages
//! between them that take their time.
//!
//! ```text
//!   application ==> coordinator n0 ---Prepare, Decide---> master n0   shards 0, 2
//!   application ==> coordinator n1 <--Vote, Applied------ master n1   shards 1, 3
//!                        |   ^
//!                    Sequence, Placed
//!                        v   |
//!                   sequencer of epoch 2,   and that of epoch 1, which does not know that its term is over
//! ```
//! Each step one thing happens, drawn from the seed: a link delivers its next message, a log becomes durable, an
//! application begins, reads or commits, another sequencer serves, a client is gone and back. Links keep their order,
//! and are not in step with each other. No process dies here.
//!
//! | file | |
//! |---|---|
//! | `scenario` | what kind of day it is |
//! | `node` | one node: its roles, what they say to whom, its log |
//! | `application` | transactions that read the masters' pages one by one |
//! | `history` | what was committed, and is it strictly serializable |
//! | `run` | one run from its seed to its verdict |

mod application;
mod history;
mod node;
mod run;
mod scenario;

pub use run::opposite_roles;
pub(crate) use run::run_seed;
