//! A slot is made when all transactions have ended that run, and that may take as long as they do. Somebody waits for
//! it, who is told which they are, and may have enough of it.

use crate::config::WatchConfig;
use crate::error::{SetupError, WatchError};
use crate::running::{Running, running};
use crate::session::client;
use std::cell::Cell;
use std::fmt;
use std::future;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time;
use tokio_postgres::Client;

/// How often it is looked for those that are waited for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the server may take to end a session.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// Hears which transactions are waited for.
type Say<'a> = Box<dyn FnMut(&[Running]) + 'a>;

/// The one who waits until a database is set up.
pub struct Patience<'a> {
    say: Say<'a>,
    stop: Pin<Box<dyn Future<Output = ()> + 'a>>,
    session: Cell<Option<i32>>,
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<'a> Patience<'a> {
    /// One who waits to the end, and wants to hear nothing.
    pub fn endless() -> Self {
        Self::new(|_| {}, future::pending())
    }

    /// One who is told, about every second, which transactions are waited for, until `stop` is over.
    pub fn new(say: impl FnMut(&[Running]) + 'a, stop: impl Future<Output = ()> + 'a) -> Self {
        Self { say: Box::new(say), stop: Box::pin(stop), session: Cell::new(None) }
    }

    /// Does something for as long as its patience lasts.
    ///
    /// # Errors
    /// It is stopped: the session that it was done in is over, with everything that it had under way.
    pub(crate) async fn during<T>(
        &mut self,
        config: &WatchConfig,
        work: impl AsyncFnOnce(&mut Waiting<'_, 'a>) -> Result<T, SetupError>,
    ) -> Result<T, SetupError> {
        let Self { say, stop, session } = self;
        let stopped = {
            let mut waiting = Waiting { say, session };
            let mut work = pin!(work(&mut waiting));
            tokio::select! {
                done = &mut work => return done,
                () = stop => SetupError::Stopped,
            }
        };
        if let Some(process) = session.take() {
            end_session(config, process).await?;
        }
        Err(stopped)
    }
}

/// The one who waits, while it does.
pub(crate) struct Waiting<'a, 'b> {
    say: &'a mut Say<'b>,
    session: &'a Cell<Option<i32>>,
}

impl Waiting<'_, '_> {
    /// A session for the work, which is ended if that is stopped: the server does not look whether somebody still
    /// waits.
    pub(crate) async fn client(&self, config: &WatchConfig) -> Result<Client, WatchError> {
        let client = client(config).await?;
        self.session.set(Some(client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?));
        Ok(client)
    }

    /// Waits for something that the server does when all transactions have ended that run, and says which they are.
    pub(crate) async fn wait<T>(
        &mut self,
        config: &WatchConfig,
        done: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, WatchError> {
        let mut done = pin!(done);
        loop {
            tokio::select! {
                done = &mut done => return Ok(done?),
                () = time::sleep(LOOK_EVERY) => (self.say)(&running(config, None).await?),
            }
        }
    }
}

async fn end_session(config: &WatchConfig, process: i32) -> Result<(), SetupError> {
    let client = client(config).await?;
    client.execute("SELECT pg_terminate_backend($1)", &[&process]).await?;
    let gone = async {
        while client.query_opt("SELECT FROM pg_stat_activity WHERE pid = $1", &[&process]).await?.is_some() {
            time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    time::timeout(ENDED_WITHIN, gone).await.unwrap_or(Ok(()))
}
