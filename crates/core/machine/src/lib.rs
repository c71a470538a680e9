//! One process: hosts machines, and carries messages, timers and disk work between them and their driver.
//!
//! ```text
//!   application --- Client --- Port::Upstream ---(a link of the process, or the network)--- Port::Session --- Store
//!                     |  Port::ToPeer, Port::FromPeer: peers                                             |
//!                     +- notes - Redirector beside it                                                      disk work
//! ```
//! A [`Machine`] is a role of any front end: a state machine without clock, socket, file or thread. [`Hosted`] is a
//! machine in its process: it keeps the order in which what it says may leave, and its session with a server in the
//! same process. A driver gives it its [`Event`]s and carries out what it has [`Said`]. `net` drives machines by
//! sockets, disks and threads, each under a lock of its own; `sim` drives a [`Node`] of them in virtual time.
//!
//! # How a machine is added
//! Implement [`Machine`] for it, and declare its messages by `framing::messages!` and `framing::family!`. Nothing here, in `net` or in
//! `sim` knows what a machine is for. The example `echo` is the smallest one.
#![no_std]

extern crate alloc;

mod driver;
mod goodbye;
mod held;
mod hosted;
mod keepalive;
mod machine;
pub mod metrics;
mod node;
mod pace;
mod parcel;
mod status;
mod wakers;
mod work;

pub use driver::{Disk, Driver};
pub use goodbye::Goodbye;
pub use hosted::{Event, Hosted, Local, Said};
pub use keepalive::{Due, Keepalive};
pub use machine::{LOCAL, Link, Machine, Note, Output, Port, RoleId, Upstream, UpstreamId, Waiter};
pub use node::Node;
pub use pace::Pace;
pub use parcel::{Message, Parcel, Welcomed};
pub use status::{Cell, Status, Table};
pub use wakers::Wakers;
pub use work::{Append, Appended, DiskDone, Done, Opaque};
