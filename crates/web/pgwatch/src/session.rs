//! Ordinary queries of the database.

use crate::config::WatchConfig;
use crate::error::WatchError;
use tokio_postgres::Client;

/// A connection for ordinary queries, whose own commits never wait for a watcher.
pub(crate) async fn client(config: &WatchConfig) -> Result<Client, WatchError> {
    let client = config.database.connect().await?;
    client.batch_execute("SET synchronous_commit = local").await?;
    Ok(client)
}

/// A setting as this session has it.
pub(crate) async fn show(client: &Client, name: &str) -> Result<String, WatchError> {
    Ok(client.query_one("SELECT current_setting($1)", &[&name]).await?.try_get(0)?)
}
