//! A turn of a watcher with its slot: its begin and its end, as the server's log has them ([`crate::slot`]).

use crate::config::WatchConfig;
use crate::error::{Locked, WatchError};
use crate::lsn::Lsn;
use crate::replication::{Replication, quote};
use crate::slot::Word;
use crate::standing::Process;
use crate::watcher::Server;
use coherence::Fence;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A connection that has got the slot, and one for questions.
pub(crate) struct Opened {
    pub(crate) replication: Replication,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) process: Process,
    /// The number of the next transaction when the slot was there already: what another watcher has confirmed was
    /// before.
    pub(crate) next: u64,
    /// A watcher that gets the slot later has a greater number.
    pub(crate) fence: Fence,
}

/// Gets the slot, and says so.
pub(crate) async fn open(config: &WatchConfig) -> Result<Opened, WatchError> {
    let mut replication = Replication::connect(&config.database, &config.slot).await?;
    let client = config.database.connect().await?;
    // This session's own transaction, which gives a number, waits for nobody.
    client.batch_execute(&format!("SET synchronous_commit = local; SET lock_timeout = {LOCKED_MS_MAX}")).await?;
    let (server, process) = (replication.identify().await?, replication.process().await?);
    replication.start(&config.slot, &config.publication).await?;
    // The position of a record that is durable when this ends: no later one has a smaller one, after a crash neither. A
    // watcher that had the slot before has said that it has ended before this, or never will.
    let query = format!("SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, '{BEGUN}', '')::text");
    let said = locked(&client, &config.slot, &query).await?;
    let row = said.iter().rev().find_map(|it| if let SimpleQueryMessage::Row(row) = it { Some(row) } else { None });
    let row = row.ok_or(WatchError::Unexpected("no row"))?;
    let next = row.try_get(0)?.and_then(|it| it.parse().ok()).ok_or(WatchError::Unexpected("what is no number"))?;
    let Lsn(number) =
        row.try_get(1)?.and_then(|it| it.parse().ok()).ok_or(WatchError::Unexpected("what is no position"))?;
    let fence = Fence { term: server.timeline.into(), number };
    Ok(Opened { replication, client, server, process, next, fence })
}

/// How long the lock may be another session's, in milliseconds: those that it is for have it for an instant.
const LOCKED_MS_MAX: u32 = 2000;

/// The words of watchers in the server's log, by the names of their receivers.
const BEGUN: &str = "thorp_fence";
const ENDED: &str = "thorp_ended";

/// The word that a message of a transaction is, if it is one. An end that was said at another server, or before this
/// one was taken over or restored, is none: what came after it there may be missing here.
pub(crate) fn word(prefix: &[u8], content: &[u8], server: Server) -> Option<Word> {
    match prefix {
        _ if prefix == BEGUN.as_bytes() => Some(Word::Begun),
        _ if prefix == ENDED.as_bytes() && content == ended_at(server).as_bytes() => Some(Word::Ended),
        _ => None,
    }
}

fn ended_at(Server { system, timeline }: Server) -> String {
    format!("{system} {timeline}")
}

/// The number of the lock under which watchers of a slot say their words.
fn lock(slot: &str) -> String {
    format!("hashtextextended('thorp ' || {}, 0)", quote(slot, '\''))
}

/// Runs a query in a transaction that is before or after those in which other watchers of the slot say their words.
async fn locked(client: &Client, slot: &str, query: &str) -> Result<Vec<SimpleQueryMessage>, WatchError> {
    let lock = lock(slot);
    let done = client.simple_query(&format!("SELECT pg_advisory_xact_lock({lock}); {query}")).await;
    match done {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            Err(WatchError::Locked { slot: slot.to_owned(), by: holder(client, &lock).await? })
        }
        done => Ok(done?),
    }
}

/// The session that has the lock, if it has it still.
async fn holder(client: &Client, lock: &str) -> Result<Option<Locked>, WatchError> {
    let query = format!(
        "SELECT l.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, '') \
         FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (l.classid::bigint << 32) | l.objid::bigint = {lock} AND l.pid IS NOT NULL"
    );
    let Some(row) = client.query_opt(&query, &[]).await? else { return Ok(None) };
    Ok(Some(Locked { process: row.try_get(0)?, application: row.try_get(1)?, role: row.try_get(2)? }))
}

/// Says that this watcher has ended, if its process has the slot still: where another one has got it, that has said so
/// under the lock, or waits for it now.
pub(crate) async fn say_end(client: &Client, slot: &str, process: &Process, server: Server) -> Result<(), WatchError> {
    let (name, id, begun) = (quote(slot, '\''), process.id, quote(&process.begun, '\''));
    let query = format!(
        "SELECT pg_logical_emit_message(true, '{ENDED}', {}) \
         FROM pg_replication_slots, pg_stat_get_activity({id}) process \
         WHERE slot_name = {name} AND active_pid = {id} AND extract(epoch FROM backend_start)::text = {begun}",
        quote(&ended_at(server), '\'')
    );
    locked(client, slot, &query).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_counts_at_the_server_where_it_was_said() {
        let server = Server { system: 7_345_678_901_234_567_890, timeline: 2 };
        let said = ended_at(server);
        let at = |server| word(ENDED.as_bytes(), said.as_bytes(), server);
        assert_eq!(at(server), Some(Word::Ended));
        assert_eq!(at(Server { timeline: 3, ..server }), None, "the server was taken over or restored");
        assert_eq!(at(Server { system: 1, ..server }), None, "it is another one");
        for content in ["", "7345678901234567890", "7345678901234567890 22", "7345678901234567890 2 ", "2"] {
            assert_eq!(word(ENDED.as_bytes(), content.as_bytes(), server), None, "{content:?}");
        }
        assert_eq!(word(BEGUN.as_bytes(), b"", server), Some(Word::Begun));
        assert_eq!(word(b"thorp", said.as_bytes(), server), None);
    }
}
