//! The messages of Thorp: plain structs, one file per conversation, with both ends of the wire in it.
//!
//! Messages come in *families*: one for each kind of machine that is talked to. A family has an enum for each
//! direction, so a role is given nothing that is not for it; the store's are [`ToServer`], [`ToClient`] and [`ToPeer`],
//! those of the web front end are in [`homes`], [`caches`] and [`look_ups`], those of the volumes front end in
//! [`volumes`] and [`volume_home`]. A [`Parcel`] carries a message of any family.
//!
//! The store's conversations:
//!
//! | conversation | asks | answers |
//! |---|---|---|
//! | [`session`] | `Hello`, `Rejoin`, `Ping` | `Welcome`, `Rejoined`, `Pong`, `Goodbye` |
//! | [`fetch`] | `Fetch`, `Released` | `Page`, `LeftOut` |
//! | [`commit`] | `CommitRequest`, `AskOutcome` | `CommitReply` |
//! | [`notice`] | `Notices` | `Ack` |
//! | [`grant`] | `Grant` | `Granted` |
//! | [`help`] | `Help`, `Reachable` | `PeerPage`, `NoHelp`, `Arrived` |
//! | [`lease`] | `Intent` | `Leased`, `Promise` |
//! | [`group`] | `Revalidate`, `Lead`, `FindLeader`, `Departed` | `Revalidated`, `Leader`, `Members` |
//! | [`watch`] | `Intent` | `Leased`, `Promise`, `Notices` |
//! | [`status`] | `AskStatus` | `Status` |
//!
//! A link is a FIFO stream, but for what [`order`] lets pass. Every answer of a master is preceded on the stream by the
//! batch of notices that it depends on; nothing else about order is promised, answers to different questions may
//! overtake one another.
#![no_std]

extern crate alloc;

mod beside;
pub mod caches;
pub mod commit;
mod counts;
mod directions;
pub mod fetch;
mod form;
pub mod grant;
pub mod group;
pub mod help;
pub mod homes;
pub mod lease;
pub mod lineage;
pub mod look_ups;
pub mod notice;
pub mod order;
mod parcel;
pub mod session;
pub mod status;
pub mod volume_home;
pub mod volumes;
pub mod watch;

pub use beside::{Leading, LookForLeader};
pub use commit::{Advance, AskOutcome, CommitReply, CommitRequest, Outcome, PageReads};
pub use directions::{ToClient, ToPeer, ToServer};
pub use fetch::{Fetch, Follow, LeftOut, Page, Released};
pub use grant::{Grant, Granted};
pub use group::{Departed, FindLeader, GROUP, Lead, Leader, Member, Members, Revalidate, Revalidated};
pub use help::{Arrived, Help, NoHelp, PeerHello, PeerPage, Reachable};
pub use lease::{Intent, Leased, Promise};
pub use lineage::Lineage;
pub use notice::{Ack, Notice, Notices};
pub use parcel::{Message, Parcel};
pub use session::{Goodbye, Held, Hello, Ping, Pong, Rejoin, Rejoined, SessionLimits, Welcome};
pub use status::{AskStatus, Cell, Status, Table};
pub use watch::WATCH;

/// The oldest and the newest protocol that this code speaks.
pub const PROTOCOL: (u16, u16) = (5, 5);
