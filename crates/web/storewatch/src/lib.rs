//! A watcher of a Thorp store: every committed change of objects, by whatever client, invalidates what depends on them
//! *before* it becomes visible. `docs/watch.md` says how it is used, what it promises and what voids that.
//!
//! ```text
//!   writer ---- Commit ----> store ---- Intent -----> Watcher ---- update ----> hub ----> homes
//!                              |                         |                       |
//!               it waits       | <----- Promise -------- | <----- released ----- |
//!               is applied     | ---- Invalidations ---> | ------ visible -----> |
//!                              | <- Ping ---- Leased --> | ------ lease -------> |
//! ```
//! A watcher's session with a node of the store counts as a group that holds every page of the leased spaces: as long
//! as its lease lasts, no commit there continues without its promise. In a store of several nodes it has a session with
//! each, and its hub has a lease while all that have shards have given one. The rules are those of [`Rule`], each with
//! its reason.
//!
//! | module | duty |
//! |---|---|
//! | `under_way` | commits that are under way, and what is marked for them, decided |
//! | `node` | the session with one node, and its lease |
//! | `watcher` | the sessions with all nodes, and what the hub is leased by them, decided |
//! | `watch` | a watcher at work |
//! | `check` | what is wrong with a store that should be watched |
//! | `tables` | the figures of a status |
//! | `rule` | the rules by name |

mod check;
mod node;
mod rule;
mod tables;
mod under_way;
mod watch;
mod watcher;

pub use check::check;
pub use rule::Rule;
pub use tables::WATCH_STORE;
pub use under_way::Effect;
pub use watch::{StartError, Watch, WatchState, WatchStatus};
pub use watcher::{EFFECTS, Standing, Watcher};
