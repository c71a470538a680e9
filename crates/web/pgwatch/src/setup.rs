//! The things that a database needs to be watched, made.
//!
//! The things made are recorded (`made`), so that they can be undone by anybody (`remove`), and nothing else is
//! touched. A name that something else has already is refused.

use crate::config::WatchConfig;
use crate::error::{SetupError, WatchError};
use crate::identity;
use crate::made::{Made, Record, current, drop_slot, trigger_names, truncate_function};
use crate::patience::{Patience, Waiting};
use crate::remove::undo;
use crate::replication::quote;
use crate::required::{Before, name_standbys, require};
use crate::session::{client, show};
use crate::standbys::Standbys;
use std::cell::Cell;
use std::time::Duration;
use tokio::time;
use tokio_postgres::Client;

/// Makes a publication of all tables, unless there is one of that name; event triggers that report altered tables; the
/// slot; and has every commit wait for the watcher, which they do when this ends. Returns what it has done, a line for
/// each.
///
/// # Errors
/// Nothing was made, or what was made is undone; unless the database has failed halfway: then it can be removed.
pub async fn set_up(config: &WatchConfig, patience: &mut Patience<'_>) -> Result<Vec<String>, SetupError> {
    let is_begun = Cell::new(false);
    let made = patience.during(config, async |waiting| make(config, waiting, &is_begun).await).await;
    if matches!(made, Err(SetupError::Stopped)) && is_begun.get() {
        match undo(config, Duration::ZERO, false).await {
            // It was stopped before anything was there.
            Ok(_) | Err(SetupError::NotMade) => {}
            Err(error) => return Err(error),
        }
    }
    made
}

async fn make(
    config: &WatchConfig,
    waiting: &mut Waiting<'_, '_>,
    is_begun: &Cell<bool>,
) -> Result<Vec<String>, SetupError> {
    let client = waiting.client(config).await?;
    if Record::read(&client).await?.is_some() {
        return Err(SetupError::Made);
    }
    let level = show(&client, "wal_level").await?;
    if level != "logical" {
        return Err(SetupError::WalLevel(level));
    }
    let names = show(&client, "synchronous_standby_names").await?;
    let others = Standbys::parse(&names).ok_or_else(|| SetupError::Standbys(names.clone()))?;
    let standbys = others.with(&config.slot).ok_or_else(|| SetupError::Standbys(names.clone()))?;
    refuse_taken(&client, config).await?;
    let is_published = is_published(&client, config).await?;
    if !is_published {
        refuse_without_identity(&client, config).await?;
    }

    let is_set = "SELECT FROM pg_file_settings WHERE name = 'synchronous_standby_names' \
                  AND sourcefile LIKE '%postgresql.auto.conf'";
    let is_set = client.query_opt(is_set, &[]).await?.is_some();
    let mut record = Record {
        database: current(&client).await?,
        publication: config.publication.clone(),
        slot: config.slot.clone(),
        before: Before { names, is_set },
        made: if is_published { vec![Made::Triggers] } else { vec![Made::Publication, Made::Triggers] },
    };
    // A record that is there from now on is this one's.
    is_begun.set(true);
    // One transaction, by the rules of a text with several statements: what is recorded is there, and nothing else.
    let publication = if is_published { String::new() } else { make_publication(config) };
    client.batch_execute(&[publication, make_triggers(config), record.statements()].concat()).await?;

    record.made.extend([Made::Standby, Made::Slot]);
    client.batch_execute(&record.statements()).await?;
    if let Err(error) = require(&client, config, &standbys, &others, waiting).await {
        // The name may be that of somebody else's slot by now.
        record.made.pop();
        client.batch_execute(&record.statements()).await?;
        return Err(error);
    }
    let publication = &config.publication;
    Ok(vec![
        if is_published {
            format!("the publication {publication} is there, and left as it is")
        } else {
            format!("made the publication {publication} of all tables")
        },
        "made event triggers: tables that are altered invalidate everything".to_owned(),
        format!("made the slot {}, which keeps the log until a watcher has read it", config.slot),
        format!("synchronous_standby_names is {standbys}: commits wait for the watcher from now on"),
    ])
}

/// Makes the slot again that was lost.
///
/// A slot is made when all transactions have ended that run, and those that wait for the watcher never would. So
/// commits do not wait for the watcher until the slot is there, and every one of them is visible before it is. Nobody
/// tells what they change. So the slot is dropped first, which no watcher has then; and the leases are waited for that
/// there may be between one and a cache.
///
/// # Errors
/// The slot is in use, or the database refuses. It can be done again.
pub async fn renew_slot(config: &WatchConfig, leases: Duration, patience: &mut Patience<'_>) -> Result<(), SetupError> {
    let required = Cell::new(None);
    let made = patience.during(config, async |waiting| make_anew(config, leases, waiting, &required).await).await;
    if let (Err(SetupError::Stopped), Some(standbys)) = (&made, required.take()) {
        name_standbys(&client(config).await?, &standbys).await?;
    }
    made
}

async fn make_anew(
    config: &WatchConfig,
    leases: Duration,
    waiting: &mut Waiting<'_, '_>,
    required: &Cell<Option<Standbys>>,
) -> Result<(), SetupError> {
    let client = waiting.client(config).await?;
    let names = show(&client, "synchronous_standby_names").await?;
    let standbys = Standbys::parse(&names).ok_or_else(|| SetupError::Standbys(names.clone()))?;
    drop_slot(&client, &config.slot).await?;
    time::sleep(leases).await;
    let others = standbys.without(&config.slot);
    let standbys = others.with(&config.slot).unwrap_or(standbys);
    // Commits should wait again, whatever becomes of this.
    required.set(Some(standbys.clone()));
    name_standbys(&client, &others).await?;
    let made = require(&client, config, &standbys, &standbys, waiting).await;
    if made.is_err() {
        name_standbys(&client, &standbys).await?;
    }
    made
}

async fn refuse_taken(client: &Client, config: &WatchConfig) -> Result<(), SetupError> {
    let query = "SELECT 'schema', nspname::text FROM pg_namespace WHERE nspname = $1 \
                 UNION ALL SELECT 'slot', slot_name::text FROM pg_replication_slots WHERE slot_name = $1 \
                 UNION ALL SELECT 'event trigger', evtname::text FROM pg_event_trigger WHERE evtname = ANY ($2)";
    let triggers = trigger_names(&config.slot);
    match client.query(query, &[&config.slot, &triggers.as_slice()]).await?.first() {
        Some(row) => Err(SetupError::Taken { kind: row.try_get(0)?, name: row.try_get(1)? }),
        None => Ok(()),
    }
}

async fn refuse_without_identity(client: &Client, config: &WatchConfig) -> Result<(), SetupError> {
    let tables = identity::tables_without(client, &config.publication).await?;
    if tables.is_empty() { Ok(()) } else { Err(SetupError::NoIdentity(tables)) }
}

async fn is_published(client: &Client, config: &WatchConfig) -> Result<bool, WatchError> {
    let exists = "SELECT FROM pg_publication WHERE pubname = $1";
    Ok(client.query_opt(exists, &[&config.publication]).await?.is_some())
}

fn make_publication(config: &WatchConfig) -> String {
    let name = quote(&config.publication, '"');
    format!("CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true);")
}

/// The stream does not tell that a table is altered or dropped, or a materialized view filled.
///
/// A partition that is detached concurrently is gone from its table when the first of two transactions ends, and the
/// command's end belongs to the second. So that is told at its start. The command cannot be part of a function, so the
/// session's query has the word.
///
/// The end of a command does not say what it has dropped. That has a trigger of its own, which passes over temporary
/// tables: nobody else sees them, and applications drop them all day. The parts of one, such as a default, may look
/// permanent.
fn make_triggers(config: &WatchConfig) -> String {
    let (schema, truncate) = (quote(&config.slot, '"'), truncate_function(&config.slot));
    let [end, start, drop] = trigger_names(&config.slot).map(|name| quote(&name, '"'));
    format!(
        "CREATE SCHEMA {schema};
         CREATE FUNCTION {schema}.tell() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF tg_tag NOT LIKE 'DROP %' AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
                 OR EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp')
             THEN
                 PERFORM pg_logical_emit_message(true, 'thorp', '*');
             END IF;
         END $$;
         CREATE FUNCTION {schema}.tell_start() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF current_query() ~* '\\mconcurrently\\M' THEN
                 PERFORM pg_logical_emit_message(true, 'thorp', '*');
             END IF;
         END $$;
         CREATE FUNCTION {schema}.tell_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE original AND NOT is_temporary) THEN
                 PERFORM pg_logical_emit_message(true, 'thorp', '*');
             END IF;
         END $$;
         CREATE FUNCTION {truncate}() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM pg_logical_emit_message(true, 'thorp', '*');
             RETURN NULL;
         END $$;
         CREATE EVENT TRIGGER {end} ON ddl_command_end EXECUTE FUNCTION {schema}.tell();
         CREATE EVENT TRIGGER {start} ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
             EXECUTE FUNCTION {schema}.tell_start();
         CREATE EVENT TRIGGER {drop} ON sql_drop EXECUTE FUNCTION {schema}.tell_drop();
         ALTER EVENT TRIGGER {end} ENABLE ALWAYS;
         ALTER EVENT TRIGGER {start} ENABLE ALWAYS;
         ALTER EVENT TRIGGER {drop} ENABLE ALWAYS;"
    )
}
