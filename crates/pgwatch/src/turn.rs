//! A turn of a watcher with its slot: its begin and its end, as the server's log has them ([`crate::slot`]).

use crate::config::WatchConfig;
use crate::error::WatchError;
use crate::lsn::Lsn;
use crate::replication::{Replication, quote};
use crate::slot::Word;
use crate::standing::Process;
use crate::watcher::Server;
use coherence::Fence;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A connection that has got the slot, and one for questions.
pub(crate) struct Opened {
    pub(crate) replication: Replication,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) process: Process,
    /// The number of the next transaction when the slot was there already: what another watcher has confirmed was before.
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
    // The position of a record that is durable when this ends: no later one has a smaller one, after a crash neither. A watcher
    // that had the slot before has said that it has ended before this, or never will.
    let lock = lock(&config.slot);
    let query =
        format!("{lock}; SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, '{BEGUN}', '')::text");
    let said = client.simple_query(&query).await?;
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

/// The word that a message of a transaction is, if it is one. An end that was said at another server, or before this one was taken
/// over or restored, is none: what came after it there may be missing here.
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

/// Has what follows in the same query, which is a transaction of its own, be before or after what another watcher of the slot says.
fn lock(slot: &str) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtextextended('thorp ' || {}, 0))", quote(slot, '\''))
}

/// Says that this watcher has ended, if its process has the slot still: where another one has got it, that has said so under the
/// lock, or waits for it now.
pub(crate) async fn say_end(client: &Client, slot: &str, process: &Process, server: Server) -> Result<(), WatchError> {
    let (lock, slot, id, begun) = (lock(slot), quote(slot, '\''), process.id, quote(&process.begun, '\''));
    let query = format!(
        "{lock}; SELECT pg_logical_emit_message(true, '{ENDED}', {}) \
         FROM pg_replication_slots, pg_stat_get_activity({id}) process \
         WHERE slot_name = {slot} AND active_pid = {id} AND extract(epoch FROM backend_start)::text = {begun}",
        quote(&ended_at(server), '\'')
    );
    Ok(client.batch_execute(&query).await?)
}
