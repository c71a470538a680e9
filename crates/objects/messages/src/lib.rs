//! The messages between clients, redirectors and stores: plain structs with their bytes, one file per conversation,
//! with both ends in it.
//!
//! | conversation | asks | answers |
//! |---|---|---|
//! | [`session`] | `Hello`, `Resume`, `Ping` | `Welcome`, `Resumed`, `Pong`, `Goodbye` |
//! | [`fetch`] | `Fetch`, `Released` | `Page`, `LeftOut` |
//! | [`commit`] | `CommitRequest`, `AskOutcome` | `CommitReply` |
//! | [`invalidation`] | `Invalidations` | `Ack` |
//! | [`grant`] | `Grant` | `Granted` |
//! | [`help`] | `Help`, `Reachable` | `PeerPage`, `NoHelp`, `Arrived` |
//! | [`placement`] | | `Placement`, `Elsewhere` |
//! | [`sync`] | `Sync` | `Synced` |
//! | [`lease`] | `Intent` | `Leased`, `Promise` |
//! | [`group`] | `Revalidate`, `Lead`, `FindLeader`, `Departed` | `Revalidated`, `Leader`, `Members` |
//! | [`watch`] | `Intent` | `Leased`, `Promise`, `Invalidations` |
//!
//! A link is a FIFO stream, but for what [`order`] lets pass. Every answer of a master is preceded on the stream by the
//! batch of invalidations that it depends on; nothing else about order is promised, answers to different questions may
//! overtake one another.
//!
//! The roles of a store meet in messages too ([`roles`]), and its nodes ([`nodes`]), which move shards ([`moves`]).
//!
//! The state of a session that an end has opened stands here too ([`upstream`]), its keep-alive ([`heartbeat`]), and
//! the nodes that it has sessions with ([`store_nodes`], [`places`]).
#![no_std]

extern crate alloc;

pub mod admission;
mod beside;
mod bytes;
pub mod commit;
mod counts;
mod directions;
pub mod fetch;
mod form;
pub mod grant;
pub mod group;
pub mod heartbeat;
pub mod help;
pub mod invalidation;
pub mod lease;
pub mod lineage;
pub mod moves;
pub mod nodes;
pub mod order;
pub mod placement;
pub mod places;
pub mod roles;
pub mod session;
pub mod store_nodes;
pub mod sync;
pub mod upstream;
mod vector;
pub mod watch;

pub use admission::admit;
pub use beside::{Leading, LookForLeader};
pub use commit::{Advance, AskOutcome, CommitReply, CommitRequest, Outcome, PageReads};
pub use directions::{CLIENT, PEER, SERVER, ToClient, ToPeer, ToServer, session_at};
pub use fetch::{Fetch, Follow, LeftOut, Page, Released};
pub use grant::{Grant, Granted};
pub use group::{Departed, FindLeader, GROUP, Lead, Leader, Member, Members, Revalidate, Revalidated, SEVERAL};
pub use heartbeat::Heartbeat;
pub use help::{Arrived, Help, NoHelp, PeerHello, PeerPage, Reachable};
pub use invalidation::{Ack, Invalidation, Invalidations};
pub use lease::{Intent, Leased, Promise};
pub use lineage::Lineage;
pub use moves::{
    ChangedSlot, CloseShard, CopiedPage, CopyPages, ListPages, NotCopied, PagesListed, RecentChanges, Serving,
    ShardClosed,
};
pub use nodes::{Applied, Home, NodeHello, Recall, Recalled, RecalledCommit, ToNode, Unapplied, Withdraw};
pub use placement::{Elsewhere, NodeAt, Placement, ShardAt};
pub use places::{At, Places};
pub use roles::{Among, Decide, Openings, Placed, Prepare, Release, Sequence, Verdict, Vote};
pub use session::{Held, Hello, Ping, Pong, Resume, Resumed, SessionLimits, Welcome};
pub use store_nodes::{Change, StoreNode, StoreNodes};
pub use sync::{Sync, Synced};
pub use upstream::{Overdue, Phase, Upstream};
pub use vector::PerShard;
pub use watch::{Abandoned, WATCH};
