//! The things made in a database to watch it, undone.

use crate::config::WatchConfig;
use crate::error::SetupError;
use crate::guard::unguard;
use crate::made::{Made, Record, drop_slot, trigger_names, truncate_function};
use crate::replication::quote;
use crate::required::let_go;
use crate::session::client;
use std::time::Duration;
use tokio::time;

/// Undoes what was made: commits wait for the watcher no more. Returns what it has done.
///
/// The responses that caches have stored are not invalidated by anybody from then on. So the watcher has to be stopped
/// first, and none can begin once the slot is dropped. Caches answer for nothing any more when the leases are over that
/// there are between the watcher and a cache: that is waited for before commits continue.
///
/// # Errors
/// Nothing was undone, unless the database has failed halfway: then it can be done again.
pub async fn remove(config: &WatchConfig, leases: Duration) -> Result<Vec<String>, SetupError> {
    undo(config, leases, true).await
}

/// The same; roles stay guarded unless they should be let go, too.
pub(crate) async fn undo(config: &WatchConfig, leases: Duration, guards: bool) -> Result<Vec<String>, SetupError> {
    let client = client(config).await?;
    let record = Record::read(&client).await?.ok_or(SetupError::NotMade)?;
    if record.slot != config.slot || record.publication != config.publication {
        return Err(SetupError::OtherNames { publication: record.publication, slot: record.slot });
    }
    let is_made = |what| record.made.contains(&what);
    let mut said = Vec::new();
    if is_made(Made::Slot) {
        drop_slot(&client, &record.slot).await?;
        said.push(format!("dropped the slot {}", record.slot));
    }
    if is_made(Made::Standby) {
        time::sleep(leases).await;
        let rest = let_go(&client, config, &record.before).await?;
        said.push(format!("synchronous_standby_names is '{rest}': commits wait for the watcher no more"));
    }
    let mut statements = Vec::new();
    if is_made(Made::Triggers) {
        statements.push(drop_triggers(&record.slot));
        said.push("dropped the event triggers".to_owned());
    }
    if is_made(Made::Publication) {
        statements.push(format!("DROP PUBLICATION IF EXISTS {};", quote(&record.publication, '"')));
        said.push(format!("dropped the publication {}", record.publication));
    }
    if guards {
        let (unguarded, roles) = unguard(&client).await?;
        statements.push(unguarded);
        said.extend(roles);
    }
    // One transaction: the record goes with what it is about.
    statements.push(record.forget());
    client.batch_execute(&statements.concat()).await?;
    Ok(said)
}

/// The statements fail if somebody else has put something into the schema: that is not dropped. Triggers of partitions
/// go with their function, as nothing else can depend on it.
fn drop_triggers(slot: &str) -> String {
    let (schema, truncate) = (quote(slot, '"'), truncate_function(slot));
    let [end, start, drop] = trigger_names(slot).map(|name| quote(&name, '"'));
    format!(
        "DROP EVENT TRIGGER IF EXISTS {end};
         DROP EVENT TRIGGER IF EXISTS {drop};
         DROP EVENT TRIGGER IF EXISTS {start};
         DROP FUNCTION IF EXISTS {schema}.tell();
         DROP FUNCTION IF EXISTS {schema}.tell_start();
         DROP FUNCTION IF EXISTS {schema}.tell_drop();
         DROP FUNCTION IF EXISTS {truncate}() CASCADE;
         DROP SCHEMA IF EXISTS {schema};"
    )
}
