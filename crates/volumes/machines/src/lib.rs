//! The machines of a write-back volume: a local disk's speed, and writes that survive their machine.
//!
//! | module | duty |
//! |---|---|
//! | `owner` | answers writes and flushes; copies, write-back, the registry |
//! | `config`, `request`, `effect` | its settings, what it is asked, what it wants done |
//! | `holders` | the holders of its copies, as it has them |
//! | `copies` | copies of a log as numbers: which holder counts how much of it, and what a holder keeps |
//! | `pace` | how long a holder takes to count |
//! | `standing` | the state of a holder, for people |
//! | `dirty` | the flush epochs that are not written back |
//! | `homing` | what goes home next |
//! | `waiting` | requests that wait until this many count a write |
//! | `registry` | the registry's word on a volume, and the lease by it |
//! | `acknowledged` | the writes that a holder has acknowledged, in the registry and in its list |
//! | `rescue` | which holder looks after a volume whose host is silent, and when |
//! | `rebuild` | an entry that was lost, made again of what others know |
//! | `circle` | which members keep copies |
//! | `holder` | keeps copies |
//! | `takeover`, `lists` | brings home what an owner has left at its holders |
//! | `life` | which of a holder's directory, its copies and its older states is the holder |
//! | `home` | whose writes home takes, and how it installs them |
//! | `known_cache` | a cache as its home of the same host remembers it: one that is older is noticed |
//! | `known_home` | home as its owner remembers it: one that went back is noticed |
//! | `messages` | the two families that these machines speak |
//! | `rule` | the rules by name |
#![no_std]

extern crate alloc;

mod acknowledged;
mod circle;
mod config;
mod copies;
mod dirty;
mod effect;
mod holder;
mod holders;
mod home;
mod homing;
mod known_cache;
mod known_home;
mod life;
mod lists;
pub mod messages;
mod owner;
mod pace;
mod rebuild;
mod registry;
mod request;
mod rescue;
mod rule;
mod standing;
mod takeover;
mod waiting;

pub use crate::messages::holder::{
    Content, Entry, Epoch, Extent, FlushEpoch, FromHolder, HeldVolume, Kept, PartitionId, Record, Sequence, Stamp,
    Stream, ToHolder, VolumeId,
};
pub use acknowledged::Acknowledged;
pub use circle::{Circle, Member};
pub use config::{Ack, Degraded, LEASE, OwnerConfig, REPLACE_AFTER};
pub use effect::{Effect, Found, HomeSays, Read, WriteBack};
pub use holder::{Holder, HolderConfig, HolderEffect, HolderEntry};
pub use home::{Home, HomeRefusal, Step};
pub use known_cache::{CacheWentBack, KnownCache};
pub use known_home::{HomeState, KnownHome, WentBack};
pub use life::{Life, is_whole};
pub use lists::Source;
pub use owner::{Owner, Recovered};
pub use rebuild::Findings;
pub use registry::{AcceptedLoss, Change, HostId, Registered, Restore, View};
pub use request::{Declined, RequestId, Write};
pub use rescue::RESCUE_AFTER;
pub use rule::Rule;
pub use standing::{HolderState, Standing};
pub use takeover::{Earlier, TakeOver, TakeOverConfig, TakeOverEffect};
