//! Replica identities: the columns of a table by which the server tells which row was updated or deleted.

use crate::error::WatchError;
use tokio_postgres::{Client, Row};

/// The tables that a publication has or would have, and whose updates and deletes PostgreSQL refuses once it publishes
/// them: they have neither a primary key nor another replica identity. A publication that is not there yet has all
/// tables.
///
/// # Errors
/// The database cannot be asked.
pub(crate) async fn tables_without(client: &Client, publication: &str) -> Result<Vec<String>, WatchError> {
    // A partitioned table has no rows: its partitions' identities count.
    let query = "SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                 WHERE relkind = 'r' AND relpersistence = 'p' AND c.oid >= 16384 \
                 AND relreplident <> 'f' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisvalid \
                     AND (relreplident = 'i' AND indisreplident OR relreplident = 'd' AND indisprimary AND indimmediate)) \
                 AND (NOT EXISTS (SELECT FROM pg_publication WHERE pubname = $1) \
                     OR EXISTS (SELECT FROM pg_publication WHERE pubname = $1 AND puballtables AND (pubupdate OR pubdelete)) \
                     OR EXISTS (SELECT FROM pg_publication p \
                         JOIN pg_publication_tables t ON t.pubname = p.pubname \
                         CROSS JOIN LATERAL (SELECT format('%I.%I', t.schemaname, t.tablename)::regclass AS root) r \
                         WHERE p.pubname = $1 AND (pubupdate OR pubdelete) \
                         AND (c.oid = root OR c.oid IN (SELECT relid FROM pg_partition_tree(root))))) \
                 ORDER BY 1";
    client.query(query, &[&publication]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The replica identity of a table or of a partition.
pub(crate) struct Identity {
    /// Its full name.
    pub(crate) table: String,
    /// Whether it is that of all values.
    pub(crate) is_full: bool,
    /// The columns whose old values are told.
    pub(crate) columns: Vec<String>,
}

impl Identity {
    /// Whether everything that is told by the other one is told by this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.is_full || !other.is_full && other.columns.iter().all(|column| self.has(column))
    }

    /// Whether the old value of this column is told.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.is_full || self.columns.iter().any(|name| name == column)
    }
}

/// The identity of a table, and those of its partitions that have rows.
///
/// # Errors
/// The database cannot be asked.
pub(crate) async fn identities(client: &Client, table: u32) -> Result<Vec<Identity>, WatchError> {
    // An index ends with columns that are stored beside its key (`INCLUDE`).
    let query = "SELECT format('%I.%I', nspname, relname), relreplident = 'f', ARRAY( \
                     SELECT attname::text FROM pg_index JOIN pg_attribute a ON attrelid = indrelid \
                     WHERE indrelid = c.oid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) AND indisvalid \
                     AND (relreplident = 'i' AND indisreplident OR relreplident = 'd' AND indisprimary AND indimmediate)) \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                 WHERE c.oid = $1 OR c.oid IN (SELECT relid FROM pg_partition_tree($1) WHERE isleaf) \
                 ORDER BY c.oid <> $1, 1";
    let rows = client.query(query, &[&table]).await?;
    let identity =
        |row: &Row| Ok(Identity { table: row.try_get(0)?, is_full: row.try_get(1)?, columns: row.try_get(2)? });
    rows.iter().map(identity).collect()
}
