//! The things that a database has for its watcher, by name, and the record of those that were made.
//!
//! The settings of the database say what was made, by which names, and what was there before, so that it can be undone
//! by anybody.

use crate::error::{SetupError, WatchError};
use crate::replication::quote;
use crate::required::Before;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The database's settings that say what was made.
const MADE: &str = "thorp.watch_made";
const PUBLICATION: &str = "thorp.watch_publication";
const SLOT: &str = "thorp.watch_slot";

/// The database's settings that say which standbys there were, and whether `ALTER SYSTEM` had set them.
const BEFORE: &str = "thorp.watch_before";
const BEFORE_SET: &str = "thorp.watch_before_set";

/// All of them, in the order of a record's values.
const SETTINGS: [&str; 5] = [MADE, PUBLICATION, SLOT, BEFORE, BEFORE_SET];

/// The names of the event triggers: of the end and of the start of a command, and of what it has dropped.
pub(crate) fn trigger_names(slot: &str) -> [String; 3] {
    [format!("{slot}_ddl"), format!("{slot}_ddl_start"), format!("{slot}_ddl_drop")]
}

/// The function for triggers of partitions: a partition that is truncated alone is not in a stream that tells its
/// changes as those of its table.
pub(crate) fn truncate_function(slot: &str) -> String {
    format!("{}.tell_truncate", quote(slot, '"'))
}

/// A slot of another kind or database is somebody else's.
pub(crate) async fn drop_slot(client: &Client, slot: &str) -> Result<(), SetupError> {
    let query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                 WHERE slot_name = $1 AND plugin = 'pgoutput' AND database = current_database()";
    match client.execute(query, &[&slot]).await {
        Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => Err(SetupError::Watched),
        dropped => {
            dropped?;
            Ok(())
        }
    }
}

/// Something that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Publication,
    Triggers,
    Standby,
    Slot,
}

impl Made {
    const ALL: [Self; 4] = [Self::Publication, Self::Triggers, Self::Standby, Self::Slot];

    const fn name(self) -> &'static str {
        match self {
            Self::Publication => "publication",
            Self::Triggers => "triggers",
            Self::Standby => "standby",
            Self::Slot => "slot",
        }
    }
}

/// The record of the things made in a database, as its settings say.
pub(crate) struct Record {
    /// The database's name, quoted.
    pub(crate) database: String,
    pub(crate) publication: String,
    pub(crate) slot: String,
    pub(crate) before: Before,
    pub(crate) made: Vec<Made>,
}

impl Record {
    /// The record as it is in the catalog.
    pub(crate) async fn read(client: &Client) -> Result<Option<Self>, WatchError> {
        let Some(made) = setting(client, MADE).await? else { return Ok(None) };
        let is_made = |what: &Made| made.split(',').any(|name| name == what.name());
        Ok(Some(Self {
            database: current(client).await?,
            publication: setting(client, PUBLICATION).await?.unwrap_or_default(),
            slot: setting(client, SLOT).await?.unwrap_or_default(),
            before: Before {
                names: setting(client, BEFORE).await?.unwrap_or_default(),
                is_set: setting(client, BEFORE_SET).await?.is_some_and(|is_set| is_set == "true"),
            },
            made: Made::ALL.into_iter().filter(is_made).collect(),
        }))
    }

    /// The statements that take it down.
    pub(crate) fn statements(&self) -> String {
        let made = self.made.iter().map(|what| what.name()).collect::<Vec<_>>().join(",");
        let is_set = self.before.is_set.to_string();
        let values = [made.as_str(), &self.publication, &self.slot, &self.before.names, &is_set];
        let set = |(name, value)| format!("ALTER DATABASE {} SET {name} = {};", self.database, quote(value, '\''));
        SETTINGS.into_iter().zip(values).map(set).collect()
    }

    /// The statements that take it away.
    pub(crate) fn forget(&self) -> String {
        SETTINGS.map(|name| format!("ALTER DATABASE {} RESET {name};", self.database)).concat()
    }
}

/// The name of the database, quoted.
pub(crate) async fn current(client: &Client) -> Result<String, WatchError> {
    let name: String = client.query_one("SELECT current_database()::text", &[]).await?.try_get(0)?;
    Ok(quote(&name, '"'))
}

/// One of the database's own settings.
async fn setting(client: &Client, name: &str) -> Result<Option<String>, WatchError> {
    let query = "SELECT substr(line, length($1) + 2) FROM pg_db_role_setting, unnest(setconfig) AS line \
                 WHERE setrole = 0 AND starts_with(line, $1 || '=') \
                 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let row = client.query_opt(query, &[&name]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
