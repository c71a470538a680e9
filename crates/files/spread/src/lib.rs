//! Published files between machines: a file server, relays, members and publishers, as state machines.
//!
//! ```text
//!   publisher --Have, Put, Switch--> file server --Offer, Chunk--> relay --Offer, Chunk--> member --> visitors
//!                                        ^                          |  ^                     |
//!                                        +--------- Renew ----------+  +------- Renew -------+
//! ```
//! A publish is one switch of a site's newest revision. It is offered to subscribers at once; they fetch the chunks
//! they lack, and serve it when they have all of it. Revisions in use are held, level by level, under leases. A
//! subscriber whose lease is over says that its revision may be stale. The rules have names in bold, and `rule` lists
//! the ways to break them. Nothing here knows a clock, a socket or a disk.
//!
//! | module | duty |
//! |---|---|
//! | `messages` | the family of messages |
//! | `number` | numbers of revisions, names of sites |
//! | `rule` | ways to break the rules |
//! | `holders` | subscribers at their giver: leases, holds, offers |
//! | `locks` | locks of paths at a file server: holders, leases, requests |
//! | `announced` | chunks of uploads that subscribers are told about before the switch |
//! | `taker` | a subscription at its subscriber |
//! | `wants`, `window` | chunks on their way, as fast as they are read |
//! | `condemned` | removal of unused chunks beside everything else |
//! | `settings` | settings of a site |
//! | `server` | the file server of a store |
//! | `relay`, `relays` | the relay of a group for the sites of a space; those of all spaces |
//! | `member` | a member that has whole revisions, or their directories, and its visitors |
//! | `client` | a publisher or a reader |
//! | `trees` | the trees of an offer and a switch, as both disks use them |
//! | `tables` | the tables of a status |
#![no_std]

extern crate alloc;

mod announced;
mod client;
mod condemned;
mod holders;
mod locks;
mod member;
pub mod messages;
mod number;
mod relay;
mod relays;
mod rule;
mod server;
mod settings;
pub mod tables;
mod taker;
pub mod trees;
mod wants;
mod window;

pub use client::{Answer, Client, HELD, LockState, Locking, Request, Ticket};
pub use condemned::Swept;
pub use member::work as member_work;
pub use member::{FetchedContent, Member, MemberConfig, Opened, PATIENCE, READY, Visit};
pub use number::{Number, Revision, SiteKey};
pub use relay::{Relay, RelayConfig};
pub use relays::Relays;
pub use rule::Way;
pub use server::work as server_work;
pub use server::{FileServer, ServerConfig};
pub use settings::SiteSettings;
