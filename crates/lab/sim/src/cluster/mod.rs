//! A cluster: several nodes that are one store, each a real [`store::Store`] with a disk, and links between them.
//!
//! ```text
//!   application ==> n0: shards 0, 2 -- disk
//!                    ||  Prepare, Vote, Decide, Recall ...
//!   application ==> n1: shards 1, 3 -- disk, and the sequencer of epoch 2; the one of epoch 1 serves still
//! ```
//! Each step one thing happens, drawn from the seed: a link delivers its next message, a disk ends an operation, an
//! application begins, reads or commits. Now and then a node crashes and comes back, a link or a session is lost and
//! found, another sequencer serves. Links and sessions keep their order, and are not in step with each other. At the
//! end everything must come to rest, once more after all nodes have lost their power.
//!
//! Applications use real clients, each with a cache and a session with every node, or with the redirector of a group.
//! Now and then a redirector is killed, and another process begins in its place.
//!
//! | file | |
//! |---|---|
//! | `scenario` | what kind of day it is |
//! | `node` | one node: its store and its disk |
//! | `application` | transactions, and the client that runs them |
//! | `groups` | the redirector of a group, whose members are some of the applications |
//! | `lines` | the connections between clients, redirectors and nodes |
//! | `history` | what was committed, and is it strictly serializable |
//! | `run` | one run from its seed to its verdict |

mod application;
mod groups;
mod history;
mod lines;
mod node;
mod run;
mod scenario;

pub use run::opposite_roles;
pub(crate) use run::run_seed;
