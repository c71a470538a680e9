//! A server that requires a watcher: it has a slot, and every commit waits for whoever reads it.

use crate::config::WatchConfig;
use crate::error::{SetupError, WatchError};
use crate::patience::Waiting;
use crate::replication::quote;
use crate::session::{client, show};
use crate::standbys::Standbys;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{self, Instant};
use tokio_postgres::Client;

/// So long the server may take to read its settings again.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// How often it is asked whether it has.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// A commit that waits for this long waits for the watcher: standbys that are connected answer sooner.
const HELD: Duration = Duration::from_millis(100);

/// Makes the slot, and has all commits wait for its watcher, in such an order that a watcher which can read the slot is
/// one that is waited for. If that fails, there is no slot, and commits wait for `otherwise`.
pub(crate) async fn require(
    client: &Client,
    config: &WatchConfig,
    standbys: &Standbys,
    otherwise: &Standbys,
    waiting: &mut Waiting<'_, '_>,
) -> Result<(), SetupError> {
    // A slot is made when all transactions have ended that run, so it comes before commits wait. This one is nobody
    // else's, and goes with the session.
    let first: String = client.query_one("SELECT 'thorp_' || pg_backend_pid()", &[]).await?.try_get(0)?;
    let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)";
    waiting.wait(config, client.execute(make, &[&first])).await?;
    name_standbys(client, standbys).await?;
    let made = make_slot(client, config, &first).await;
    client.execute("SELECT pg_drop_replication_slot($1)", &[&first]).await?;
    if made.is_err() {
        name_standbys(client, otherwise).await?;
    }
    made
}

async fn make_slot(client: &Client, config: &WatchConfig, first: &str) -> Result<(), SetupError> {
    let wait = until_commits_wait(client, config);
    time::timeout(READ_WITHIN, wait).await.map_err(|_| SetupError::NotRead)??;
    client.execute("SELECT pg_copy_logical_replication_slot($1, $2, false)", &[&first, &config.slot]).await?;
    Ok(())
}

/// The server's processes read its settings one by one, and say so nowhere: a commit of our own has to show that it is
/// held. There is no slot yet, so no watcher lets it go.
async fn until_commits_wait(client: &Client, config: &WatchConfig) -> Result<(), WatchError> {
    loop {
        until_listed(config, true).await?;
        if commit_is_held(client, config).await? {
            return Ok(());
        }
    }
}

/// Whether a commit of our own is held, which nobody confirms in the meantime. It is let go in any case.
pub(crate) async fn commit_is_held(client: &Client, config: &WatchConfig) -> Result<bool, WatchError> {
    let session = self::client(config).await?;
    let process: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    session.batch_execute("SET synchronous_commit = on").await?;
    let mut commit = pin!(session.batch_execute("SELECT pg_logical_emit_message(true, 'thorp_setup', '')"));
    let is_held = tokio::select! {
        ended = &mut commit => ended.map(|()| false)?,
        held = until_held(client, process) => held.map(|()| true)?,
    };
    if is_held {
        client.execute("SELECT pg_cancel_backend($1)", &[&process]).await?;
        commit.await?;
    }
    Ok(is_held)
}

async fn until_held(client: &Client, process: i32) -> Result<(), WatchError> {
    let query = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'";
    let mut since = Instant::now();
    while since.elapsed() < HELD {
        time::sleep(ASK_EVERY).await;
        if client.query_opt(query, &[&process]).await?.is_none() {
            since = Instant::now();
        }
    }
    Ok(())
}

/// Waits until the server has read a list that requires the watcher, or one that does not. A new session has the values
/// of the server's first process, which tells all others.
pub(crate) async fn until_listed(config: &WatchConfig, is_required: bool) -> Result<(), WatchError> {
    loop {
        let names = show(&client(config).await?, "synchronous_standby_names").await?;
        let standbys = Standbys::parse(&names).unwrap_or_default();
        if standbys.requires(&config.slot) == is_required {
            return Ok(());
        }
        time::sleep(ASK_EVERY).await;
    }
}

pub(crate) async fn name_standbys(client: &Client, standbys: &Standbys) -> Result<(), WatchError> {
    let value = quote(&standbys.to_string(), '\'');
    client.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = {value}")).await?;
    client.batch_execute("SELECT pg_reload_conf()").await?;
    Ok(())
}

/// Has commits wait for the others of the list alone. If these are those from before, the server's files are as before,
/// too.
pub(crate) async fn let_go(client: &Client, config: &WatchConfig, before: &Before) -> Result<Standbys, SetupError> {
    // A new session: it has what the server's own files say now.
    let names = show(&self::client(config).await?, "synchronous_standby_names").await?;
    let now = Standbys::parse(&names).ok_or_else(|| SetupError::Standbys(names.clone()))?;
    let rest = now.without(&config.slot);
    if Standbys::parse(&before.names).as_ref() == Some(&rest) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = {}", quote(&before.names, '\''));
        let reset = "ALTER SYSTEM RESET synchronous_standby_names";
        client.batch_execute(if before.is_set { &set } else { reset }).await?;
        client.batch_execute("SELECT pg_reload_conf()").await?;
    } else {
        name_standbys(client, &rest).await?;
    }
    let read = until_listed(config, false);
    time::timeout(READ_WITHIN, read).await.map_err(|_| SetupError::NotRead)??;
    Ok(rest)
}

/// The list as it was before the database was set up.
pub(crate) struct Before {
    /// Its text.
    pub(crate) names: String,
    /// Whether `ALTER SYSTEM` had set it.
    pub(crate) is_set: bool,
}
