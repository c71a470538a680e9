//! The smallest machine of a door: an echo with a timer and a record on disk. It is here to be read, by whoever adds a
//! machine, and to show that nothing else is asked of one.
//!
//! ```text
//!   Caller --- Shout{text} ---> Echo --- Append(text) ---> its log
//!          <-- Heard{count, text} when the record is durable
//!          <-- Count{count} every second, once it has been heard of
//! ```
//! | to add a machine | see |
//! |---|---|
//! | its messages, an enum for each direction, and their bytes | `messages.rs` |
//! | the machine that serves: `machine::Machine` | `server.rs` |
//! | the machine that is its client | `caller.rs` |
//! | a process of it, alone | `tests/node.rs` |
//! | over TCP, with a log in a directory | `tests/net.rs` |
//! | in virtual time: crashes, cut lines, slow lines | `tests/sim.rs` |
//!
//! Neither `machine`, nor `net`, nor `sim` knows any of this.
#![no_std]

extern crate alloc;

mod caller;
mod messages;
mod server;

pub use caller::Caller;
pub use messages::{CALLER, ECHO, ToCaller, ToEcho};
pub use server::Echo;
