//! A multicomputer: the nodes of a store, each with the client of its application, on processors, links and disks that
//! take their time. Nothing fails.
//!
//! ```text
//!   node 0                               node 1
//!     application - client - store         application - client - store       one process each: calls cost no message
//!        processor: one thing at a time       processor
//!           link out, link in  ===========>      link in, link out            each carries one message at a time
//!              |                                    |
//!              +---- disks: shared by all, or one for each node: one request at a time
//! ```
//! The stores and clients are the real ones. The costs of each step are in [`Hardware`].
//!
//! | file | |
//! |---|---|
//! | `hardware` | the machine, in figures |
//! | `load` | what the applications do |
//! | `costs` | the instructions and bytes of each message |
//! | `links`, `disks` | when a message arrives, and when a request to a disk ends |
//! | `application` | one transaction after the other |
//! | `node` | a store and a client in one process, and what an event makes them do |
//! | `meeting` | nodes and clients find each other before the run |
//! | `rounds` | the time of questions to the sequencer, in parts |
//! | `run` | one run, and what came of it |

mod application;
mod costs;
mod disks;
mod hardware;
mod links;
mod load;
mod meeting;
mod node;
mod rounds;
mod run;

pub use costs::Messages;
pub use hardware::{Disks, Hardware, Memory};
pub use load::{Load, Sequencer};
pub use run::{Outcome, SequencerParts, TransactionParts, run};
