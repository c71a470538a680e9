//! Roles whose commits wait for the watcher, as far as the settings of a role can see to that.
//!
//! A guarded role has settings of its own in the database: `synchronous_commit` is `on`, so that its commits wait, and
//! there is no time limit that would cancel one which waits. They are the defaults of its sessions: one that says `SET`
//! itself, or cancels a statement, is not kept from it, as PostgreSQL has no such right. The settings of before stand
//! beside them, and come back when the database is no longer watched.

use crate::config::WatchConfig;
use crate::error::{SetupError, WatchError};
use crate::made::current;
use crate::replication::quote;
use crate::session::client;
use tokio_postgres::Client;

/// The role's setting in the database that says since when it is guarded.
pub(crate) const GUARD: &str = "thorp.watch_guard";

/// A prefix of the settings that say what was there before.
const BEFORE: &str = "thorp.watch_before_";

/// The settings of a guarded role, and the version of the server that knows each.
const SETTINGS: [(&str, &str, u32); 3] =
    [("synchronous_commit", "on", 0), ("statement_timeout", "0", 0), ("transaction_timeout", "0", 170_000)];

/// Guards roles in the database. Returns what it has done, a line for each. Sessions that are there already keep the
/// settings that they have.
///
/// # Errors
/// There is no such role, or the database refuses: nothing was done.
pub async fn guard(config: &WatchConfig, roles: &[String]) -> Result<Vec<String>, SetupError> {
    let client = client(config).await?;
    let version: u32 = client
        .query_one("SELECT current_setting('server_version_num')", &[])
        .await?
        .try_get::<_, &str>(0)?
        .parse()
        .unwrap_or_default();
    let database = current(&client).await?;
    let now: String = client.query_one("SELECT now()::text", &[]).await?.try_get(0)?;
    let (mut statements, mut said) = (Vec::new(), Vec::new());
    for role in roles {
        if client.query_opt("SELECT FROM pg_roles WHERE rolname = $1", &[role]).await?.is_none() {
            return Err(SetupError::NoRole(role.clone()));
        }
        if setting(&client, role, GUARD).await?.is_some() {
            said.push(format!("the role {role} is guarded already"));
            continue;
        }
        let alter = format!("ALTER ROLE {} IN DATABASE {database} SET", quote(role, '"'));
        let mut set = |name: &str, value: &str| statements.push(format!("{alter} {name} = {};", quote(value, '\'')));
        for (name, value, since) in SETTINGS {
            if version < since {
                continue;
            }
            if let Some(before) = setting(&client, role, name).await? {
                set(&format!("{BEFORE}{name}"), &before);
            }
            set(name, value);
        }
        set(GUARD, &now);
        said.push(format!(
            "the role {role} waits with its commits, and has no time limits: its sessions are to connect again"
        ));
    }
    // One transaction, by the rules of a text with several statements.
    client.batch_execute(&statements.concat()).await?;
    Ok(said)
}

/// The statements after which no role is guarded any more, and what is said of them.
pub(crate) async fn unguard(client: &Client) -> Result<(String, Vec<String>), WatchError> {
    let database = current(client).await?;
    let query = "SELECT rolname::text FROM pg_db_role_setting JOIN pg_roles ON oid = setrole, unnest(setconfig) AS line \
                 WHERE starts_with(line, $1 || '=') \
                 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let (mut statements, mut said) = (Vec::new(), Vec::new());
    for row in client.query(query, &[&GUARD]).await? {
        let role: String = row.try_get(0)?;
        let alter = format!("ALTER ROLE {} IN DATABASE {database}", quote(&role, '"'));
        for (name, _, _) in SETTINGS {
            if setting(client, &role, name).await?.is_none() {
                continue;
            }
            let name_before = format!("{BEFORE}{name}");
            statements.push(match setting(client, &role, &name_before).await? {
                Some(before) => {
                    format!("{alter} SET {name} = {}; {alter} RESET {name_before};", quote(&before, '\''))
                }
                None => format!("{alter} RESET {name};"),
            });
        }
        statements.push(format!("{alter} RESET {GUARD};"));
        said.push(format!("the role {role} has the settings of before"));
    }
    Ok((statements.concat(), said))
}

/// A setting that a role has in this database alone.
async fn setting(client: &Client, role: &str, name: &str) -> Result<Option<String>, WatchError> {
    let query = "SELECT substr(line, length($2) + 2) FROM pg_db_role_setting, unnest(setconfig) AS line \
                 WHERE setrole = (SELECT oid FROM pg_roles WHERE rolname = $1) AND starts_with(line, $2 || '=') \
                 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let row = client.query_opt(query, &[&role, &name]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
