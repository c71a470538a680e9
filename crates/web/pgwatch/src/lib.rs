//! A watcher of PostgreSQL: every committed change of a row, by whatever program, invalidates what depends on it
//! *before* it becomes visible. `docs/watch.md` says how it is set up, what it promises and what voids that.
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
//! | `database` | where the database is, and its connections |
//! | `config` | the settings of a watcher |
//! | `tls`, `tls_error` | what protects them, and why it does not |
//! | `replication` | the connection that the stream comes on |
//! | `probe` | looks now and then whether a commit has waited |
//! | `slot` | how long a watcher answers for its slot, decided |
//! | `turn` | the begin and the end of its turn with the slot, as the log has them |
//! | `standing` | how it stands with the slot, asked |
//! | `awaited` | whether commits wait for the watcher |
//! | `watch` | a watcher at work |
//! | `standbys` | the server's list of those that commits wait for |
//! | `identity` | the columns by which the server tells which row was changed |
//! | `required` | the server's commits, which wait for the watcher or no more |
//! | `patience` | who waits until a slot is made, and for how long |
//! | `made` | the things that a database has for its watcher, and their record |
//! | `setup` | what a database needs, made |
//! | `remove` | the same, undone |
//! | `check` | what is wrong with it |
//! | `guard` | roles whose commits wait, as far as their settings see to that |
//! | `running` | the transactions that somebody waits for |
//! | `session` | ordinary queries |
//! | `tables` | the figures of a status |
//! | `error` | why a connection is given up, and why a database is not set up |
//! | `rule` | the rules by name |

mod awaited;
mod changes;
mod check;
mod config;
mod database;
mod error;
mod guard;
mod identity;
mod lsn;
mod made;
mod map;
mod patience;
pub mod pgoutput;
mod probe;
mod refusal;
mod remove;
mod replication;
mod required;
mod rule;
mod running;
mod session;
mod setup;
mod slot;
mod snapshot;
mod standbys;
mod standing;
mod tables;
mod tls;
mod tls_error;
mod turn;
mod watch;
mod watcher;

pub use changes::MESSAGE_PREFIX;
pub use check::{check, missing_tables};
pub use coherence::{Finding, Severity};
pub use config::WatchConfig;
pub use database::{Database, NotADatabase};
pub use error::{Locked, SetupError, WatchError};
pub use guard::guard;
pub use lsn::{Lsn, NotAnLsn, Xid};
pub use map::{Map, MapError};
pub use patience::Patience;
pub use refusal::StreamError;
pub use remove::remove;
pub use rule::Rule;
pub use running::{Running, running};
pub use setup::{renew_slot, set_up};
pub use slot::{Slot, Word};
pub use snapshot::{NotASnapshot, Snapshot};
pub use tables::WATCH_DATABASE;
pub use tls_error::TlsError;
pub use watch::{Watch, WatchState, WatchStatus};
pub use watcher::{Effect, Server, Watcher};
