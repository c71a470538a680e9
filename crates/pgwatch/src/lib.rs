//! A watcher of PostgreSQL: every committed change of a row, by whatever program, invalidates what depends on it *before*
//! it becomes visible. `docs/watch.md` says how it is set up, what it promises and what voids that.
//!
//! ```text
//!   writer ---- COMMIT ----> server ---- stream ----> Watcher ---- update ----> hub ----> homes
//!                              |                         |                       |
//!            it waits          | <------ confirm ------- | <----- released ----- |
//!            becomes visible   | ------- snapshot -----> | ------ visible -----> |
//! ```
//! A watcher is a synchronous standby by PostgreSQL's logical replication: the server keeps each commit invisible until
//! the watcher has confirmed it. The rules are those of [`Rule`], each with its reason.
//!
//! | module | duty |
//! |---|---|
//! | `lsn` | positions in the log, and transactions |
//! | `snapshot` | the transactions that a new reader sees |
//! | `pgoutput` | the messages of the stream |
//! | `map` | the rules from rows to dependencies, as a file says them |
//! | `changes` | from a transaction's changes to its dependencies |
//! | `refusal` | why a stream is not read on |
//! | `watcher` | what is confirmed and unmarked when, decided |
//! | `replication` | the connection that the stream comes on |
//! | `announced` | the watcher's updates at the hub |
//! | `watch` | a watcher at work |
//! | `standbys` | the server's list of those that commits wait for |
//! | `identity` | the columns by which the server tells which row was changed |
//! | `required` | the server's commits, which wait for the watcher or no more |
//! | `setup` | what a database needs, made |
//! | `remove` | the same, undone |
//! | `check` | what is wrong with it |
//! | `session` | ordinary queries |
//! | `error` | why a connection is given up, and why a database is not set up |
//! | `rule` | the rules by name |

mod announced;
mod changes;
mod check;
mod error;
mod identity;
mod lsn;
mod map;
pub mod pgoutput;
mod refusal;
mod remove;
mod replication;
mod required;
mod rule;
mod session;
mod setup;
mod snapshot;
mod standbys;
mod watch;
mod watcher;

pub use changes::MESSAGE_PREFIX;
pub use check::{Finding, Severity, check};
pub use error::{SetupError, WatchError};
pub use lsn::{Lsn, NotAnLsn, Xid};
pub use map::{Map, MapError};
pub use refusal::StreamError;
pub use remove::remove;
pub use rule::Rule;
pub use setup::{renew_slot, set_up};
pub use snapshot::{NotASnapshot, Snapshot};
/// Where a database is, and who asks: parsed from `postgres://...` or `host=... user=...`.
pub use tokio_postgres::Config as Database;
pub use watch::{Watch, WatchConfig, WatchState, WatchStatus};
pub use watcher::{Effect, Server, Watcher};
