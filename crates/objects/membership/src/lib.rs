//! The nodes of a store in etcd: which are up, where each shard is, and which is the sequencer. No commit comes here.
//!
//! ```text
//!   /thorp/NAME/config         the store's identity, shards, extent, lease, leased spaces
//!               members/NODE   its number, its directory, the starts that it has had
//!               nodes/NODE     under the node's lease: its address, what it opens and copies, and for whom it waits
//!               placement/S    the node of shard S, the one that it moves to, and the count at which it was closed in
//!                              order, if it was
//!               openings/S     the number of the last opening of shard S, and the run of the node that took it
//!               epoch          the term of the last sequencer
//!               sequencer      under its node's lease: the node, its run, its epoch
//! ```
//! 1. Everything is decided from a [`View`], all keys as of one revision. A transaction compares the keys that it was
//!    decided from, and its outcome is what the next view shows. So it does not matter whether an answer is lost.
//! 2. A **run** is one term of a node under one lease, and has a number drawn at random. An opening or an epoch names
//!    the run that took it.
//! 3. A lease counts from the moment when the keep-alive was sent, 2 % short, on a clock that runs on in sleep
//!    (**AnswerWithinLease**).
//! 4. Numbers never go back. A node that has seen a higher epoch or opening than etcd has refuses to serve: etcd was
//!    restored to an older state.
//!
//! | file | what it knows or does |
//! |---|---|
//! | `keys`, `records` | the keys, and their values |
//! | `view` | all keys as of one revision |
//! | `follow` | the changes that a view means for the store of a node |
//! | `plan` | the transactions by which a node opens, is elected, and leaves |
//! | `binding` | which directory is which node's |
//! | `adopt` | the directory of a store of one node becomes the first node's |
//! | `cluster`, `moves` | a store in etcd: creates and reads it; moves its shards, and adds nodes |
//! | `join`, `keep` | a node begins a run; keeps its lease and follows the others |
//! | `rounds`, `running` | the process of a node: one run after the other; what its threads share |
//! | `embed` | a node in the process of its application |
//! | `status` | the state of all nodes, for a person |
//! | `error` | errors, with their remedies |

mod adopt;
mod binding;
mod cluster;
mod embed;
mod error;
mod follow;
mod join;
mod keep;
mod keys;
mod moves;
mod plan;
mod records;
mod rounds;
mod running;
mod status;
mod view;

pub use adopt::write_back;
pub use binding::Binding;
pub use cluster::{Cluster, NewStore};
pub use embed::{ANSWER_WITHIN, Embedded};
pub use error::MembershipError;
pub use etcd::EtcdUrl;
pub use join::{Join, Waiting};
pub use keep::{Ended, Run};
pub use records::LeasedSpaces;
pub use rounds::{Failure, Process, Rounds};
pub use running::Running;
pub use status::{Copying, NodeState, NodeStatus, ShardState, ShardStatus, Status};
pub use view::View;
