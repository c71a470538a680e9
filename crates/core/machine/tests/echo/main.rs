//! The example `echo`, with two upstream sessions and a disk that fails and works again.

#[path = "../../examples/echo/caller.rs"]
mod caller;
#[path = "../../examples/echo/disk.rs"]
mod disk;
#[path = "../../examples/echo/messages.rs"]
mod messages;
#[path = "../../examples/echo/server.rs"]
mod server;

mod by_hand;
mod tcp;
mod virtual_time;
