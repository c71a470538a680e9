//! The words that every crate of Thorp speaks: ids, versions, horizons, deltas, the object page, limits, refusals.
//!
//! Nothing here decides anything. A type stands here when two roles, or a role and the wire, must agree on it.
#![no_std]

extern crate alloc;

mod chance;
mod delta;
mod hash;
mod horizon;
mod id;
mod key;
pub mod lease;
pub mod limits;
mod page;
mod refusal;
mod rule;
mod said;
mod shard;
mod slots;
mod time;
mod vector;
mod version;

pub use chance::splitmix;
pub use delta::{Delta, SlotChange};
pub use hash::{Map, MapEntry, Set};
pub use horizon::Horizon;
pub use id::{
    CATALOG_SPACE, ClientId, ClusterId, Incarnation, Life, MAIN_SPACE, NodeId, ObjectId, PageId, PageRange, Position,
    SessionId, SlotNo, TxnId,
};
pub use key::PeerKey;
pub use limits::Limits;
pub use page::{ObjectPage, PageFull, PageImageError};
pub use refusal::{Caller, GoodbyeReason, Refusal};
pub use rule::{Broken, Rule};
pub use said::said;
pub use shard::{Shard, Sharding};
pub use slots::SlotSet;
pub use time::Time;
pub use vector::Vector;
pub use version::{Epoch, Opening, Version};
