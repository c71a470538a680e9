//! The transactions that somebody waits for: a slot is made when all have ended that run, and a watcher that begins has
//! caught up when all have that ran then. One that was forgotten may hold either up for as long as it is open.

use crate::config::WatchConfig;
use crate::error::WatchError;
use crate::session::client;
use std::fmt;
use tokio_postgres::Client;

/// The longest part of a query that is shown.
const QUERY_CHARS_MAX: usize = 100;

/// A transaction that writes and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The process of its session; none if it is prepared.
    pub process: Option<i32>,
    /// The role.
    pub user: String,
    /// The database that it is in.
    pub database: String,
    /// Whether its session works, is idle, or waits; or the name by which it was prepared.
    pub state: String,
    /// When it began, if that may be known.
    pub since: Option<String>,
    /// The session's last query, if it may be known.
    pub query: String,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, user, database, state, since, query } = self;
        match process {
            Some(process) => write!(f, "process {process}")?,
            None => f.write_str("nobody's session")?,
        }
        write!(f, " (role {user}, database {database}, {state})")?;
        if let Some(since) = since {
            write!(f, " since {since}")?;
        }
        if query.is_empty() { Ok(()) } else { write!(f, ": {query}") }
    }
}

/// The transactions that have to end before the watcher has caught up, the oldest first: those before a number, or all.
///
/// # Errors
/// The database cannot be asked.
pub async fn running(config: &WatchConfig, before: Option<u64>) -> Result<Vec<Running>, WatchError> {
    running_by(&client(config).await?, before).await
}

/// The same, asked in this session, whose own transaction is left out.
///
/// Every role may see who holds which transaction's number; of the sessions of others it sees the role alone, unless it
/// belongs to `pg_read_all_stats`.
pub(crate) async fn running_by(client: &Client, before: Option<u64>) -> Result<Vec<Running>, WatchError> {
    let query = "SELECT l.pid, coalesce(a.usename::text, p.owner::text, ''), \
                     coalesce(a.datname::text, p.database::text, ''), \
                     coalesce(a.state, 'prepared as ' || p.gid, 'state unknown'), \
                     date_trunc('second', coalesce(a.xact_start, p.prepared))::text, \
                     left(coalesce(a.query, ''), 1000), l.transactionid::text::bigint \
                 FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
                 LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND p.transaction = l.transactionid \
                 WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' \
                 AND l.pid IS DISTINCT FROM pg_backend_pid() ORDER BY age(l.transactionid) DESC";
    let mut found: Vec<Running> = Vec::new();
    for row in client.query(query, &[]).await? {
        let number = row.try_get::<_, i64>(6)? as u32;
        // Numbers go round; two that are in use are never apart by half of them.
        let is_before = before.is_none_or(|before| number.wrapping_sub(before as u32).cast_signed() < 0);
        let (process, query): (Option<i32>, String) = (row.try_get(0)?, row.try_get(5)?);
        // Parts of a transaction have numbers of their own.
        if !is_before || process.is_some() && found.iter().any(|other| other.process == process) {
            continue;
        }
        let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
        found.push(Running {
            process,
            user: row.try_get(1)?,
            database: row.try_get(2)?,
            state: row.try_get(3)?,
            since: row.try_get(4)?,
            query: query.chars().take(QUERY_CHARS_MAX).collect(),
        });
    }
    Ok(found)
}
