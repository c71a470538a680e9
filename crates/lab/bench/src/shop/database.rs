//! Connections to PostgreSQL: several for reads, which they carry one behind the other, and several for updates, one at
//! a time on each. A connection that has broken is opened again by the next request for it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

/// Connections for reads, and for updates. An update holds its connection for as long as its commit waits.
const READERS: usize = 4;
const WRITERS: usize = 16;

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer from the database.
#[derive(Debug)]
pub(crate) enum DatabaseError {
    /// It said so, or cannot be reached.
    Postgres(tokio_postgres::Error),
    /// It says nothing.
    Silent,
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(error) => error.fmt(f),
            Self::Silent => write!(f, "the database has not answered for {} s", PATIENCE.as_secs()),
        }
    }
}

/// Parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The connections.
pub(crate) struct Pool {
    config: Config,
    readers: Vec<AsyncMutex<Option<Arc<Session>>>>,
    writers: Vec<AsyncMutex<Option<Arc<Session>>>>,
    turn: AtomicUsize,
}

/// A connection, with the statements that it knows by now.
struct Session {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

impl Pool {
    pub(crate) fn new(config: Config) -> Self {
        let slots = |count| (0..count).map(|_| AsyncMutex::default()).collect();
        Self { config, readers: slots(READERS), writers: slots(WRITERS), turn: AtomicUsize::new(0) }
    }

    /// The rows that a query finds.
    pub(crate) async fn read(&self, query: &'static str, values: Parameters<'_>) -> Result<Vec<Row>, DatabaseError> {
        within(async {
            let mut slot = self.readers[self.next() % READERS].lock().await;
            let session = self.session(&mut slot).await?;
            drop(slot);
            session.query(query, values).await
        })
        .await
    }

    /// The rows that a statement returns which changes the database: a transaction of its own. After an error nobody
    /// knows whether it has taken place, unless the database says so.
    pub(crate) async fn update(&self, query: &'static str, values: Parameters<'_>) -> Result<Vec<Row>, DatabaseError> {
        let mut slot = self.writer().await;
        let done = within(async { self.session(&mut slot).await?.query(query, values).await }).await;
        if matches!(done, Err(DatabaseError::Silent)) {
            // It may still wait for its commit: no other update should wait behind it.
            *slot = None;
        }
        done
    }

    /// A connection that no other update has, if there is one.
    async fn writer(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        let free = self.writers.iter().find_map(|slot| slot.try_lock().ok());
        match free {
            Some(slot) => slot,
            None => self.writers[self.next() % WRITERS].lock().await,
        }
    }

    fn next(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    async fn session(&self, slot: &mut Option<Arc<Session>>) -> Result<Arc<Session>, DatabaseError> {
        if let Some(session) = slot.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        let session = Arc::new(Session { client, prepared: Mutex::default() });
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }
}

impl Session {
    async fn query(&self, query: &'static str, values: Parameters<'_>) -> Result<Vec<Row>, DatabaseError> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(query).cloned();
        let statement = if let Some(statement) = known {
            statement
        } else {
            let statement = self.client.prepare(query).await?;
            self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(query, statement.clone());
            statement
        };
        Ok(self.client.query(&statement, values).await?)
    }
}

async fn within<T>(work: impl Future<Output = Result<T, DatabaseError>>) -> Result<T, DatabaseError> {
    timeout(PATIENCE, work).await.unwrap_or(Err(DatabaseError::Silent))
}
