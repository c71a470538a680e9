//! The things that a database needs to be watched, made and undone.
//!
//! The settings of the database say what was made and what was there before (`thorp.watch_made`, `thorp.watch_before`), so
//! that it can be undone by anybody, and nothing else is touched.

use crate::error::WatchError;
use crate::replication::quote;
use crate::standbys::Standbys;
use crate::watch::WatchConfig;
use std::fmt;
use std::time::Duration;
use tokio::time;
use tokio_postgres::{Client, NoTls};

/// The settings that say what was made, and which standbys there were.
const MADE: &str = "thorp.watch_made";
const BEFORE: &str = "thorp.watch_before";

const MAKE_SLOT: &str = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
const DROP_SLOT: &str = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1";

/// Why nothing was made or undone, or no more than what was said before.
#[derive(Debug)]
pub enum SetupError {
    /// The database.
    Database(WatchError),
    /// It is set up already: `remove` comes first.
    Made,
    /// It was not set up.
    NotMade,
    /// `wal_level` is not `logical`.
    WalLevel(String),
    /// The standbys cannot be named beside a watcher.
    Standbys(String),
    /// A watcher still runs.
    Watched,
}

impl From<WatchError> for SetupError {
    fn from(error: WatchError) -> Self {
        Self::Database(error)
    }
}

impl From<tokio_postgres::Error> for SetupError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Made => f.write_str("this database is set up already; undo that first"),
            Self::NotMade => f.write_str("this database was not set up, so there is nothing to undo"),
            Self::WalLevel(level) => {
                write!(f, "wal_level is {level}: say ALTER SYSTEM SET wal_level = logical, and start the server again")
            }
            Self::Standbys(names) => write!(
                f,
                "synchronous_standby_names is {names}, which waits for some of several; PostgreSQL has no list that says \
                 `these as before, and the watcher always`. Have all of them waited for, or none"
            ),
            Self::Watched => f.write_str("a watcher is connected: stop it first"),
        }
    }
}

impl std::error::Error for SetupError {}

/// A connection for ordinary queries, whose own commits never wait for a watcher.
pub(crate) async fn client(config: &WatchConfig) -> Result<Client, WatchError> {
    let (client, connection) = config.database.connect(NoTls).await?;
    tokio::spawn(async { drop(connection.await) });
    client.batch_execute("SET synchronous_commit = local").await?;
    Ok(client)
}

/// Makes a publication of all tables, unless there is one of that name; the slot; a trigger that tells of altered tables;
/// and has every commit wait for the watcher, from now on. Says what it has done, a line for each.
///
/// # Errors
/// Nothing was made, unless the database has failed halfway: then what was made can be removed.
pub async fn set_up(config: &WatchConfig) -> Result<Vec<String>, SetupError> {
    let client = client(config).await?;
    if setting(&client, MADE).await?.is_some() {
        return Err(SetupError::Made);
    }
    let level = show(&client, "wal_level").await?;
    if level != "logical" {
        return Err(SetupError::WalLevel(level));
    }
    let before = show(&client, "synchronous_standby_names").await?;
    let standbys = Standbys::parse(&before).and_then(|standbys| standbys.with(&config.slot));
    let standbys = standbys.ok_or_else(|| SetupError::Standbys(before.clone()))?;

    let mut work = Work { client: &client, config, made: Vec::new(), said: Vec::new() };
    work.remember(BEFORE, &before).await?;
    work.make_publication().await?;
    work.make_trigger().await?;
    work.make_slot().await?;
    work.name_standby(&standbys).await?;
    Ok(work.said)
}

/// Undoes what was made: commits wait for the watcher no more. Says what it has done.
///
/// The responses that caches have stored are not invalidated by anybody from then on. So the watcher has to be stopped
/// first, and caches answer for nothing any more when its hub's leases are over: that is waited for.
///
/// # Errors
/// Nothing was undone, unless the database has failed halfway: then it can be done again.
pub async fn remove(config: &WatchConfig, leases: Duration) -> Result<Vec<String>, SetupError> {
    let client = client(config).await?;
    let made = setting(&client, MADE).await?.ok_or(SetupError::NotMade)?;
    let is_active = "SELECT active FROM pg_replication_slots WHERE slot_name = $1 AND active";
    if client.query_opt(is_active, &[&config.slot]).await?.is_some() {
        return Err(SetupError::Watched);
    }
    time::sleep(leases).await;
    let before = setting(&client, BEFORE).await?.unwrap_or_default();
    let mut said = Vec::new();
    for what in made.split(',').rev() {
        let line = match what {
            "standby" | "standby_set" => {
                let set = format!("ALTER SYSTEM SET synchronous_standby_names = {}", quote(&before, '\''));
                let reset = "ALTER SYSTEM RESET synchronous_standby_names".to_owned();
                client.batch_execute(if what == "standby" { &reset } else { &set }).await?;
                client.batch_execute("SELECT pg_reload_conf()").await?;
                format!("synchronous_standby_names is as before: '{before}'")
            }
            "slot" => {
                client.execute(DROP_SLOT, &[&config.slot]).await?;
                format!("dropped the slot {}", config.slot)
            }
            "trigger" => {
                client.batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", schema(config))).await?;
                "dropped the event trigger".to_owned()
            }
            "publication" => {
                let name = quote(&config.publication, '"');
                client.batch_execute(&format!("DROP PUBLICATION IF EXISTS {name}")).await?;
                format!("dropped the publication {}", config.publication)
            }
            _ => continue,
        };
        said.push(line);
    }
    for name in [MADE, BEFORE] {
        let database = current(&client).await?;
        client.batch_execute(&format!("ALTER DATABASE {database} RESET {name}")).await?;
    }
    Ok(said)
}

/// A setting up under way.
struct Work<'a> {
    client: &'a Client,
    config: &'a WatchConfig,
    made: Vec<&'static str>,
    said: Vec<String>,
}

impl Work<'_> {
    async fn make_publication(&mut self) -> Result<(), SetupError> {
        let exists = "SELECT 1 FROM pg_publication WHERE pubname = $1";
        if self.client.query_opt(exists, &[&self.config.publication]).await?.is_some() {
            self.said.push(format!("the publication {} is there, and left as it is", self.config.publication));
            return Ok(());
        }
        self.begin("publication").await?;
        let name = quote(&self.config.publication, '"');
        let make = format!("CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true)");
        self.client.batch_execute(&make).await?;
        self.said.push(format!("made the publication {} of all tables", self.config.publication));
        Ok(())
    }

    /// The stream does not tell that a table is altered or dropped, or a materialized view filled.
    async fn make_trigger(&mut self) -> Result<(), SetupError> {
        self.begin("trigger").await?;
        let schema = schema(self.config);
        let trigger = quote(&format!("{}_ddl", self.config.slot), '"');
        let make = format!(
            "CREATE SCHEMA {schema};
             CREATE FUNCTION {schema}.tell() RETURNS event_trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
                     OR EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp')
                 THEN
                     PERFORM pg_logical_emit_message(true, 'thorp', '*');
                 END IF;
             END $$;
             CREATE EVENT TRIGGER {trigger} ON ddl_command_end EXECUTE FUNCTION {schema}.tell();"
        );
        self.client.batch_execute(&make).await?;
        self.said.push("made an event trigger: tables that are altered invalidate everything".to_owned());
        Ok(())
    }

    async fn make_slot(&mut self) -> Result<(), SetupError> {
        self.begin("slot").await?;
        self.client.execute(MAKE_SLOT, &[&self.config.slot]).await?;
        self.said.push(format!("made the slot {}, which keeps the log until a watcher has read it", self.config.slot));
        Ok(())
    }

    async fn name_standby(&mut self, standbys: &Standbys) -> Result<(), SetupError> {
        let is_set = "SELECT 1 FROM pg_file_settings WHERE name = 'synchronous_standby_names' \
                      AND sourcefile LIKE '%postgresql.auto.conf'";
        let is_set = self.client.query_opt(is_set, &[]).await?.is_some();
        self.begin(if is_set { "standby_set" } else { "standby" }).await?;
        name_standbys(self.client, standbys).await?;
        self.said.push(format!("synchronous_standby_names is {standbys}: commits wait for the watcher from now on"));
        Ok(())
    }

    /// Takes down that something is made, before it is.
    async fn begin(&mut self, what: &'static str) -> Result<(), SetupError> {
        self.made.push(what);
        self.remember(MADE, &self.made.join(",")).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), SetupError> {
        let database = current(self.client).await?;
        let value = quote(value, '\'');
        self.client.batch_execute(&format!("ALTER DATABASE {database} SET {name} = {value}")).await?;
        Ok(())
    }
}

/// The schema of the trigger's function.
fn schema(config: &WatchConfig) -> String {
    quote(&config.slot, '"')
}

async fn current(client: &Client) -> Result<String, WatchError> {
    let name: String = client.query_one("SELECT current_database()::text", &[]).await?.try_get(0)?;
    Ok(quote(&name, '"'))
}

pub(crate) async fn show(client: &Client, name: &str) -> Result<String, WatchError> {
    Ok(client.query_one("SELECT current_setting($1)", &[&name]).await?.try_get(0)?)
}

/// One of the database's own settings, as it stands in the catalog.
async fn setting(client: &Client, name: &str) -> Result<Option<String>, WatchError> {
    let query = "SELECT substr(line, length($1) + 2) FROM pg_db_role_setting, unnest(setconfig) AS line \
                 WHERE setrole = 0 AND line LIKE $1 || '=%' \
                 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let row = client.query_opt(query, &[&name]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Makes the slot anew that was lost. Call it when the watcher has no connection or was stopped for as long as its hub's
/// leases last: no cache answers for anything then.
///
/// A slot is made when all transactions have ended that run, and those that wait for the watcher never would. So commits
/// do not wait for the watcher until the slot is there. Every one of them is visible before it is.
///
/// # Errors
/// The slot is in use, or the database refuses. It can be done again.
pub async fn renew_slot(config: &WatchConfig) -> Result<(), SetupError> {
    let client = client(config).await?;
    let names = show(&client, "synchronous_standby_names").await?;
    let standbys = Standbys::parse(&names).ok_or_else(|| SetupError::Standbys(names.clone()))?;
    client.execute(DROP_SLOT, &[&config.slot]).await?;
    let others = standbys.without(&config.slot);
    name_standbys(&client, &others).await?;
    let made = client.execute(MAKE_SLOT, &[&config.slot]).await;
    name_standbys(&client, &others.with(&config.slot).unwrap_or(standbys)).await?;
    made?;
    Ok(())
}

async fn name_standbys(client: &Client, standbys: &Standbys) -> Result<(), WatchError> {
    let value = quote(&standbys.to_string(), '\'');
    client.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = {value}")).await?;
    client.batch_execute("SELECT pg_reload_conf()").await?;
    Ok(())
}
