//! Begin, commit, abort.

use crate::tries::Tries;
use crate::{Database, Error, Result, nested};
use client::{Client, TxnError, TxnHandle};
use messages::Outcome;
use std::sync::Arc;
use std::task::Poll;
use types::{Time, TxnId, Version};

/// A running transaction. Dropping it before it has committed aborts it.
///
/// ```text
///            begin                      commit                committed: all of it took effect
///   Database -----> Transaction --------------------------->  refused: none of it did
///                        |                                    unknown: the store can no longer say
///                        +-- abort, drop, panic, cancelled future --> none of it takes effect
/// ```
#[derive(Debug)]
pub struct Transaction {
    database: Arc<Database>,
    handle: TxnHandle,
    ended: bool,
}

/// The receipt of a transaction that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The version that everything it changed has now; `None` if it changed nothing.
    pub version: Option<Version>,
}

impl Transaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Closed`] or [`Error::Forked`] if the database was closed or belongs to the parent process,
    /// [`Error::Nested`] inside of the body of another transaction.
    pub fn begin(database: &Arc<Database>) -> Result<Self> {
        Self::begin_by(database, Client::begin)
    }

    /// Begins a transaction that sees everything that was acknowledged before, to any client.
    ///
    /// # Errors
    /// Those of [`Transaction::begin`].
    pub fn begin_fresh(database: &Arc<Database>) -> Result<Self> {
        Self::begin_by(database, Client::begin_fresh)
    }

    fn begin_by(database: &Arc<Database>, begin: impl FnOnce(&mut Client) -> TxnHandle) -> Result<Self> {
        if nested::is_inside(database) {
            return Err(Error::Nested);
        }
        database.check()?;
        let handle = database.look(begin);
        Ok(Self { database: database.clone(), handle, ended: false })
    }

    /// The client's handle for it.
    pub fn handle(&self) -> TxnHandle {
        self.handle
    }

    /// Whether it can continue.
    ///
    /// # Errors
    /// [`Error::Doomed`], or why the database has stopped.
    pub fn check(&self) -> Result<()> {
        let checked = self.database.peek(|client, _| client.check(self.handle));
        checked.map_err(|error| self.database.error(error))
    }

    /// Commits it. If it has written something, the transaction that is first in line goes before it, unless that is
    /// the one that `tries` is of.
    ///
    /// # Errors
    /// [`Error::Doomed`] and [`Error::Refused`]: it has no effect. [`Error::OutcomeUnknown`], and whatever else says that
    /// the store has not answered: it may have taken effect.
    pub async fn commit(self, tries: Option<&Tries>) -> Result<Committed> {
        self.database.yield_to_first(self.handle, tries.and_then(Tries::place)).await;
        self.end_by(Client::commit).await
    }

    /// Ends it without its writes, and returns whether what it has read was true at one moment: a conclusion from that
    /// counts. In a store of several nodes that takes an answer of the nodes.
    ///
    /// # Errors
    /// [`Error::Doomed`] and [`Error::Refused`]: its reads are of two moments. Other errors mean that the
    /// nodes have not answered.
    pub async fn verify(self) -> Result<()> {
        self.check()?;
        if self.database.look(|client| client.sees_one_moment()) {
            return Ok(());
        }
        self.end_by(Client::commit_reads).await.map(drop)
    }

    async fn end_by(
        mut self,
        end: impl Fn(&mut Client, Time, TxnHandle) -> Result<TxnId, TxnError>,
    ) -> Result<Committed> {
        let txn = self.handle;
        let (mut id, mut has_waited) = (None, false);
        let outcome = self.database.wait(txn, |client, now| {
            has_waited = id.is_some();
            if id.is_none() {
                id = Some(end(client, now, txn)?);
            }
            Ok(client.outcome(txn)?.map_or(Poll::Pending, Poll::Ready))
        });
        let outcome = outcome.await?;
        if !has_waited {
            // A transaction that commits at once may still have let go of something.
            self.database.settle();
        }
        // The handle has ended with its outcome.
        self.ended = true;
        match outcome {
            Outcome::Committed { pages } => {
                Ok(Committed { version: pages.iter().map(|advance| advance.version).max() })
            }
            Outcome::Refused(refusal) => Err(Error::Refused(refusal)),
            Outcome::Unknown => Err(Error::OutcomeUnknown(id.expect("an outcome is of a commit"))),
        }
    }

    /// Drops everything that it did.
    pub fn abort(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            let txn = self.handle;
            self.database.client(|client, now| client.abort(now, txn));
            self.database.forget(txn);
        }
    }
}
