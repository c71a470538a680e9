//! Replica identities: the columns of a table by which the server tells which row was updated or deleted.

use crate::error::WatchError;
use tokio_postgres::Client;

/// The tables that a publication has or would have, and whose updates and deletes PostgreSQL refuses once it publishes
/// them: they have neither a primary key nor another replica identity. A publication that is not there yet has all tables.
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
