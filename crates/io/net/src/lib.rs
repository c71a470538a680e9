//! The driver of machines on a network: TCP connections, and the drive loop of a process.
//!
//! ```text
//!   sessions   listen, dial, peers, status: how connections come about            Host, the front of it all
//!   threads    reactor, a caller's own reading, tasks: who receives, and when it sleeps
//!   host       drive, flush, timers, tasks: events to the machines, what they want done to where it belongs
//!   transport  poller, socket, sender, receiver: bytes with readiness, and the messages that they make up
//! ```
//! Each of these folders uses those below it and none above; `cargo xtask tidy` finds no circle between their files.
//!
//! ```text
//!    application threads           the reactor's threads              disk
//!         |  Handle::call                |  receive                     |  threads of its own
//!         v                              v                              v
//!      a call ----------------> Core::drive: events, under a machine's lock  <----- done, or failed
//!                                        |
//!            messages to their links ----+---- disk work ---- wakers ---- timer
//! ```
//! [`Host`] runs the machines of a process ([`Machines`]), each under a lock of its own. A thread that has an event
//! gives it to its machine under the lock, sorts what that wants done to where it belongs, still under the lock so that
//! nothing overtakes, and carries it out when the lock is free; messages for another machine of the process it takes
//! there next. So an application's thread writes its own request to the socket and reads the answer, and the thread
//! that has read a commit leads the flush that makes it durable and writes the reply. On the way of a lone commit no
//! thread hands anything to another of its process.
//!
//! Sockets are read by the reactor's threads, and by threads of the application that wait; rare work, to accept, to
//! connect, to wait for a time, is done by tasks of tokio.
//!
//! [`Host::listen`] takes a machine's sessions, of a store or a redirector; [`Host::connect`] opens its session with
//! its only server, a client's or a redirector's. A machine with several servers opens their sessions itself
//! ([`machine::Output::Open`]), and members of a group connect to each other.

mod handle;
mod host;
mod lock;
mod sessions;
mod threads;
mod transport;

pub use handle::Handle;
pub use host::core::HostEnd;
#[cfg(feature = "panics")]
pub use host::failure::PANICS_AT;
pub use host::role::{Machines, Shared};
pub use sessions::address::{AddressError, parse as parse_addresses};
pub use sessions::descriptor::TakeDescriptor;
pub use sessions::dial::UpstreamConfig;
pub use sessions::host::Host;
pub use sessions::listen::{Beside, ListenConfig, ListenError, Listener, refuse_open_network};
pub use sessions::peer_family::{Admit, PeerFamily};
pub use sessions::state::{ConnectError, UpstreamState};
pub use sessions::status::{LINKS, ask_status};
pub use sessions::unix::{UnixListenConfig, listen_at_own_socket, listen_at_socket};
pub use threads::runtime::Runtime;
pub use transport::counters::{Counters, Tally};
