//! The faults of a database that should be watched, and the holes that it leaves.

use crate::config::WatchConfig;
use crate::error::WatchError;
use crate::guard::GUARD;
use crate::identity::{self, Identity};
use crate::made::{trigger_names, truncate_function};
use crate::map::Map;
use crate::session::{client, show};
use crate::standbys::Standbys;
use coherence::{Finding, Severity};
use tokio_postgres::Client;

/// Looks at everything that the promise rests on. Nothing is changed.
///
/// # Errors
/// The database cannot be asked.
pub async fn check(config: &WatchConfig) -> Result<Vec<Finding>, WatchError> {
    let client = client(config).await?;
    let mut findings = Findings { client: &client, config, found: Vec::new() };
    findings.server().await?;
    findings.standbys().await?;
    findings.slot().await?;
    findings.publication().await?;
    findings.identities().await?;
    findings.writers().await?;
    findings.subscriptions().await?;
    findings.readers().await?;
    findings.triggers().await?;
    findings.tables().await?;
    findings.truncations().await?;
    findings.names();
    findings.found.sort_by_key(|finding| finding.severity);
    Ok(findings.found)
}

/// The tables that the map has rules for and that the database does not have: no rule is about the table that was
/// meant.
///
/// # Errors
/// The database cannot be asked.
pub async fn missing_tables(config: &WatchConfig) -> Result<Vec<String>, WatchError> {
    missing(&client(config).await?, &config.map).await
}

async fn missing(client: &Client, map: &Map) -> Result<Vec<String>, WatchError> {
    let mut missing = Vec::new();
    for (name, _) in map.tables() {
        if client.query_opt(TABLE, &[&name]).await?.is_none() {
            missing.push(name.to_owned());
        }
    }
    Ok(missing)
}

/// A table by its full name: its number, and whether it is logged, has partitions, and is one.
const TABLE: &str = "SELECT c.oid, c.relpersistence = 'p', relkind = 'p', relispartition FROM pg_class c \
                     JOIN pg_namespace n ON n.oid = relnamespace \
                     WHERE nspname || '.' || relname = $1 AND relkind IN ('r', 'p')";

struct Findings<'a> {
    client: &'a Client,
    config: &'a WatchConfig,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn find(&mut self, severity: Severity, text: impl Into<String>, remedy: impl Into<String>) {
        self.found.push(Finding { severity, text: text.into(), remedy: remedy.into() });
    }

    async fn server(&mut self) -> Result<(), WatchError> {
        let version = show(self.client, "server_version_num").await?;
        if version.parse::<u32>().is_ok_and(|version| version < 140_000) {
            self.find(Severity::Broken, format!("the server's version is {version}"), "use PostgreSQL 14 or later");
        }
        let is_replica: bool = self.client.query_one("SELECT pg_is_in_recovery()", &[]).await?.try_get(0)?;
        if is_replica {
            self.find(Severity::Broken, "the server is a replica", "watch the primary");
        }
        let level = show(self.client, "wal_level").await?;
        if level != "logical" {
            let remedy = "ALTER SYSTEM SET wal_level = logical, and start the server again";
            self.find(Severity::Broken, format!("wal_level is {level}"), remedy);
        }
        for name in ["max_wal_senders", "max_replication_slots"] {
            if show(self.client, name).await? == "0" {
                self.find(Severity::Broken, format!("{name} is 0"), "set it to 10, and start the server again");
            }
        }
        Ok(())
    }

    async fn standbys(&mut self) -> Result<(), WatchError> {
        let names = show(self.client, "synchronous_standby_names").await?;
        if let Some(why) = Standbys::why_not(&names, &self.config.slot) {
            let text = format!("commits do not wait for {}: {why}", self.config.slot);
            self.find(Severity::Broken, text, "set it up; all names of the list have to be waited for");
        }
        Ok(())
    }

    async fn slot(&mut self) -> Result<(), WatchError> {
        let query = "SELECT plugin::text, coalesce(wal_status, ''), database::text = current_database() \
                     FROM pg_replication_slots WHERE slot_name = $1";
        let slot = &self.config.slot;
        let Some(row) = self.client.query_opt(query, &[slot]).await? else {
            self.find(Severity::Broken, format!("there is no slot {slot}"), "set it up");
            return Ok(());
        };
        let (plugin, status): (Option<String>, String) = (row.try_get(0)?, row.try_get(1)?);
        if plugin.as_deref() != Some("pgoutput") || row.try_get::<_, Option<bool>>(2)? != Some(true) {
            let text = format!("the slot {slot} is not one of pgoutput in this database");
            self.find(Severity::Broken, text, "choose another name");
        }
        if status == "lost" {
            let text = format!("the slot {slot} is lost: the server has removed the log that it needs");
            self.find(Severity::Broken, text, "renew it");
        }
        Ok(())
    }

    async fn publication(&mut self) -> Result<(), WatchError> {
        let name = &self.config.publication;
        let query = "SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate \
                     FROM pg_publication WHERE pubname = $1";
        let Some(row) = self.client.query_opt(query, &[name]).await? else {
            self.find(Severity::Broken, format!("there is no publication {name}"), "set it up");
            return Ok(());
        };
        if !row.try_get::<_, bool>(1)? {
            let text = format!("the publication {name} leaves out some of insert, update, delete and truncate");
            self.find(Severity::Hole, text, "publish all of them");
        }
        if !row.try_get::<_, bool>(0)? {
            let text = format!("the publication {name} is not of all tables: changes of others are not seen");
            self.find(Severity::Hole, text, "see that it has every table that a response is made from");
        }
        let narrowed = "SELECT prrelid::regclass::text FROM pg_publication_rel \
                        JOIN pg_publication p ON p.oid = prpubid \
                        WHERE pubname = $1 AND to_jsonb(pg_publication_rel) ->> 'prqual' IS NOT NULL";
        for row in self.client.query(narrowed, &[name]).await? {
            let table: String = row.try_get(0)?;
            let text = format!("the publication {name} has a filter on the rows of {table}");
            self.find(Severity::Hole, text, "publish all rows");
        }
        Ok(())
    }

    /// Tables that can be updated no more once they are published.
    async fn identities(&mut self) -> Result<(), WatchError> {
        for table in identity::tables_without(self.client, &self.config.publication).await? {
            let text = format!(
                "the table {table} has no primary key: PostgreSQL refuses UPDATE and DELETE if it is published"
            );
            self.find(Severity::Broken, text, format!("ALTER TABLE {table} REPLICA IDENTITY FULL"));
        }
        Ok(())
    }

    /// Those whose commits do not wait, or not for long.
    async fn writers(&mut self) -> Result<(), WatchError> {
        // A setting stands as it was written: `off` has four names. That of the server is read as one. A role's setting
        // in this database goes before its other one.
        let query = "WITH lines (who, setrole, setdatabase, line) AS ( \
                         SELECT CASE WHEN setrole = 0 THEN 'all roles' ELSE 'the role ' || setrole::regrole::text END \
                         || CASE WHEN setdatabase = 0 THEN '' \
                            ELSE ' in the database ' || (SELECT datname FROM pg_database d WHERE d.oid = setdatabase) END, \
                         setrole, setdatabase, line FROM pg_db_role_setting, unnest(setconfig) AS line \
                     ), standing AS ( \
                         SELECT who, line FROM lines WHERE setrole = 0 OR setdatabase <> 0 OR NOT EXISTS ( \
                             SELECT FROM lines here WHERE here.setrole = lines.setrole \
                             AND here.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                             AND split_part(here.line, '=', 1) = split_part(lines.line, '=', 1)) \
                         UNION ALL SELECT 'the server', name || '=' || reset_val FROM pg_settings \
                     ) \
                     SELECT who, line, lower(line) ~ '^synchronous_commit=' FROM ( \
                         SELECT who, line FROM standing \
                         UNION ALL SELECT 'the function ' || oid::regprocedure::text, line \
                         FROM pg_proc, unnest(proconfig) AS line WHERE line !~ '_timeout=' \
                     ) settings \
                     WHERE lower(line) ~ '^synchronous_commit=(off|false|no|0|local)$' \
                     OR line ~ '^(statement|transaction)_timeout=' AND line !~ '=0+[a-z]*$' \
                     ORDER BY who, line";
        let late = self.flushed_late().await?;
        for row in self.client.query(query, &[]).await? {
            let (who, what): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let (text, remedy) = if row.try_get(2)? {
                let by = if what.to_lowercase().ends_with("local") { "" } else { late.as_str() };
                let text = format!("{who}: {what}, so these commits are visible before they are marked{by}");
                (text, "set it to on, or guard the roles that write (--guard)")
            } else {
                let text = format!("{who}: {what}, so a commit that waits longer may be visible before it is marked");
                (text, "set it to 0, or guard the roles that write (--guard)")
            };
            self.find(Severity::Hole, text, remedy);
        }
        let query = "SELECT rolname::text, count(*) FROM pg_db_role_setting JOIN pg_roles ON oid = setrole, \
                     unnest(setconfig) AS line, pg_stat_activity \
                     WHERE starts_with(line, $1 || '=') AND usesysid = setrole AND datid = setdatabase \
                     AND datname = current_database() AND backend_start < substr(line, length($1) + 2)::timestamptz \
                     GROUP BY rolname";
        for row in self.client.query(query, &[&GUARD]).await? {
            let (role, count): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            let text = format!("{count} sessions of the role {role} are older than its guard, and have other settings");
            self.find(Severity::Hole, text, "have them connect again");
        }
        Ok(())
    }

    /// How long before it is marked a commit may be visible that is not flushed before it is: the watcher is notified
    /// of what is.
    async fn flushed_late(&self) -> Result<String, WatchError> {
        let query = "SELECT (3 * setting::int)::text || ' ' || unit FROM pg_settings WHERE name = 'wal_writer_delay'";
        let longest: String = self.client.query_one(query, &[]).await?.try_get(0)?;
        Ok(format!(", by as much as {longest} (three times wal_writer_delay)"))
    }

    /// Subscriptions of this database, whose processes write what changes elsewhere.
    async fn subscriptions(&mut self) -> Result<(), WatchError> {
        let query = "SELECT quote_ident(subname), subsynccommit FROM pg_subscription \
                     WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                     AND lower(subsynccommit) IN ('off', 'false', 'no', '0', 'local') ORDER BY subname";
        let late = self.flushed_late().await?;
        for row in self.client.query(query, &[]).await? {
            let (name, setting): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let by = if setting.eq_ignore_ascii_case("local") { "" } else { late.as_str() };
            let text = format!(
                "the subscription {name}: synchronous_commit={setting}, so what it applies is visible before it is marked{by}"
            );
            self.find(Severity::Hole, text, format!("ALTER SUBSCRIPTION {name} SET (synchronous_commit = on)"));
        }
        Ok(())
    }

    /// Replicas that somebody may read from.
    async fn readers(&mut self) -> Result<(), WatchError> {
        let query = "SELECT application_name FROM pg_stat_replication WHERE application_name <> $1";
        for row in self.client.query(query, &[&self.config.slot]).await? {
            let name: String = row.try_get(0)?;
            let text = format!("{name} follows this server, and may be behind it");
            self.find(Severity::Hole, text, "make responses from the primary alone");
        }
        Ok(())
    }

    async fn triggers(&mut self) -> Result<(), WatchError> {
        let query = "SELECT FROM pg_event_trigger WHERE evtname = $1 AND evtenabled = 'A'";
        for name in trigger_names(&self.config.slot) {
            if self.client.query_opt(query, &[&name]).await?.is_none() {
                let text = format!(
                    "there is no event trigger {name} that is always enabled: a table that is altered or dropped, and a \
                     materialized view that is filled, are not always seen"
                );
                self.find(Severity::Hole, text, format!("set it up, or ALTER EVENT TRIGGER {name} ENABLE ALWAYS"));
            }
        }
        Ok(())
    }

    async fn tables(&mut self) -> Result<(), WatchError> {
        let missing = missing(self.client, &self.config.map).await?;
        if !missing.is_empty() && missing.len() == self.config.map.tables().count() {
            let text = format!("the database has none of the map's tables: {}", missing.join(", "));
            self.find(Severity::Broken, text, "name them as they are, or watch the database that the map is for");
            return Ok(());
        }
        let tables: Vec<_> = self.config.map.tables().map(|(name, columns)| (name.to_owned(), columns)).collect();
        let by_root = self.is_by_root().await?;
        for (name, columns) in tables {
            let Some(row) = self.client.query_opt(TABLE, &[&name]).await? else {
                let text = format!("the map has the table {name}, which is not there");
                self.find(
                    Severity::Hole,
                    text,
                    "name it as it is: no rule of the map is about the table that was meant",
                );
                continue;
            };
            if !row.try_get::<_, bool>(1)? {
                let text = format!("the table {name} is not logged, so its changes are not seen");
                self.find(Severity::Hole, text, format!("ALTER TABLE {name} SET LOGGED"));
            }
            let (table, has_partitions, is_partition) = (row.try_get(0)?, row.try_get(2)?, row.try_get(3)?);
            self.name_in_stream(&name, if by_root { is_partition } else { has_partitions }, by_root);
            let identities = identity::identities(self.client, table).await?;
            if let Some((told, partitions)) = identities.split_first() {
                self.columns(&name, table, told, &columns).await?;
                self.partitions(told, if by_root { partitions } else { &[] }, &columns);
            }
        }
        Ok(())
    }

    /// Names that no response can have in `Cache-Groups`: a string of structured fields is of printable ASCII (RFC
    /// 9651).
    fn names(&mut self) {
        for name in self.config.map.unsayable() {
            let text = format!("the map has the name '{name}', which no response can say in Cache-Groups");
            self.find(Severity::Hole, text, "use letters, digits and signs of ASCII in the map and in the responses");
        }
    }

    /// Whether the stream tells a partition's changes as those of the table that it is part of.
    async fn is_by_root(&self) -> Result<bool, WatchError> {
        let query = "SELECT pubviaroot FROM pg_publication WHERE pubname = $1";
        let row = self.client.query_opt(query, &[&self.config.publication]).await?;
        row.map_or(Ok(true), |row| Ok(row.try_get(0)?))
    }

    /// The stream has a table by another name than the map.
    fn name_in_stream(&mut self, name: &str, is_other: bool, by_root: bool) {
        if !is_other {
            return;
        }
        let (whose, remedy) = if by_root {
            ("the table that it is a partition of", "give that table rules".to_owned())
        } else {
            let publication = &self.config.publication;
            let remedy = format!("ALTER PUBLICATION {publication} SET (publish_via_partition_root = true)");
            ("its partitions", remedy)
        };
        let severity = if self.config.map.has_all_others() { Severity::Costly } else { Severity::Hole };
        let text = format!("the stream names changes of {name} after {whose}, so the map's rules for it are not used");
        self.find(severity, text, remedy);
    }

    /// The columns that rules read.
    async fn columns(&mut self, name: &str, table: u32, told: &Identity, columns: &[&str]) -> Result<(), WatchError> {
        let query = "SELECT FROM pg_attribute WHERE attrelid = $1 AND attname = $2 AND NOT attisdropped";
        for column in columns {
            if self.client.query_opt(query, &[&table, column]).await?.is_none() {
                let text = format!("the table {name} has no column {column}: each change is one of the whole table");
                self.find(Severity::Costly, text, "name the column as it is");
            } else if !told.has(column) {
                let text = format!("old values of {name}.{column} are not told: an update is one of the whole table");
                self.find(Severity::Costly, text, format!("ALTER TABLE {name} REPLICA IDENTITY FULL"));
            }
        }
        Ok(())
    }

    /// Old values are those of a partition's identity, and the stream shows the identity of the whole.
    fn partitions(&mut self, told: &Identity, partitions: &[Identity], columns: &[&str]) {
        for partition in partitions.iter().filter(|partition| !partition.covers(told)) {
            let (name, table) = (&partition.table, &told.table);
            let remedy = format!("ALTER TABLE {name} REPLICA IDENTITY FULL");
            if !told.is_full {
                let text =
                    format!("{name} has another replica identity than {table}: some old values are taken for new ones");
                self.find(Severity::Hole, text, remedy);
            } else if columns.iter().any(|column| !partition.has(column)) {
                let text =
                    format!("{name} has not the replica identity of {table}: an update is one of the whole table");
                self.find(Severity::Costly, text, remedy);
            }
        }
    }

    /// Partitions whose truncation alone is not told: the stream has it only if their table is truncated.
    async fn truncations(&mut self) -> Result<(), WatchError> {
        if !self.is_by_root().await? {
            return Ok(());
        }
        let function = truncate_function(&self.config.slot);
        let query = "SELECT format('%I.%I', nspname, relname) FROM pg_class c \
                     JOIN pg_namespace n ON n.oid = relnamespace \
                     WHERE relispartition AND relkind = 'r' AND relpersistence = 'p' AND NOT EXISTS ( \
                         SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgfoid = to_regproc($1) AND tgenabled = 'A') \
                     ORDER BY 1";
        for row in self.client.query(query, &[&function]).await? {
            let name: String = row.try_get(0)?;
            let text = format!("TRUNCATE of the partition {name} alone is not seen");
            let remedy = format!(
                "CREATE TRIGGER thorp_truncate AFTER TRUNCATE ON {name} EXECUTE FUNCTION {function}(); \
                 ALTER TABLE {name} ENABLE ALWAYS TRIGGER thorp_truncate"
            );
            self.find(Severity::Hole, text, remedy);
        }
        Ok(())
    }
}
