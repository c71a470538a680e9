//! Transactions that the application begins and ends itself.

use crate::{Blocking, Db, Mode, Result, Tx};
use database::{Async, Committed};
use std::future::Future;
use std::ops::{Deref, DerefMut};

/// A transaction that the application begins and ends itself, for where the closure of [`Db::transact`] does not fit:
/// one that lives in a session of the application's own, or that is committed elsewhere than it was begun. It has the
/// operations of [`Tx`]. Dropping it aborts it.
///
/// Nobody runs it again. If others were faster, the operation or the commit that finds out says so, by an error whose
/// [`crate::Error::caller`] is [`crate::Caller::Retry`]: the transaction has had no effect, and another one can be begun.
///
/// Any number of them can be open at a time, also on one thread, and each sees its own moment; of two that change what
/// the other has read, the first to commit wins.
///
/// ```
/// # use objects as thorp;
/// use thorp::{Anywhere, Caller, Db, Error};
///
/// let db = Db::in_memory()?;
/// let mut tx = db.begin()?;
/// let counter = tx.create(Anywhere, &1_u64)?;
/// let created = tx.commit()?;
///
/// let counted = loop {
///     let mut tx = db.begin()?;
///     let count = tx.get(counter)?;
///     tx.put(counter, &(count + 1))?;
///     match tx.commit() {
///         Err(error) if error.caller() == Some(Caller::Retry) => {}
///         committed => break committed?,
///     }
/// };
/// assert!(counted.version > created.version);
///
/// let mut tx = db.begin()?;
/// tx.put(counter, &0)?;
/// tx.abort();
/// assert_eq!(db.begin()?.get(counter)?, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction<M: Mode = Blocking> {
    running: database::Transaction,
    tx: Tx<M>,
}

/// A [`Transaction`] whose operations, and whose commit, are futures.
pub type AsyncTransaction = Transaction<Async>;

impl Db {
    /// Begins a transaction that ends with [`Transaction::commit`] or [`Transaction::abort`]. Asks nobody, and does not
    /// wait.
    ///
    /// # Errors
    /// [`crate::Error::Closed`] and [`crate::Error::Forked`] if the database is of no use any more;
    /// [`crate::Error::Nested`] inside of the closure of another transaction.
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_as()
    }

    /// [`Db::begin`] for a transaction whose operations are futures.
    ///
    /// ```
    /// # use objects as thorp;
    /// # fn run<F: std::future::Future + Send>(future: F) -> F::Output { thorp::wait_for(future) }
    /// # run(async {
    /// let db = thorp::Db::in_memory()?;
    /// let mut tx = db.begin_async()?;
    /// let counter = tx.create(thorp::Anywhere, &1_u64).await?;
    /// tx.commit().await?;
    /// assert_eq!(db.begin_async()?.get(counter).await?, 1);
    /// # Ok::<(), thorp::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn begin_async(&self) -> Result<AsyncTransaction> {
        self.begin_as()
    }

    fn begin_as<M: Mode>(&self) -> Result<Transaction<M>> {
        let running = database::Transaction::begin(&self.database)?;
        Ok(Transaction { tx: self.tx(&running), running })
    }
}

impl<M: Mode> Transaction<M> {
    /// Commits it: all of it takes effect, and is durable, or nothing of it.
    ///
    /// # Errors
    /// [`crate::Error::Doomed`] and [`crate::Error::Refused`]: it has no effect. [`crate::Error::OutcomeUnknown`], and
    /// any other error that says that the store has not answered: it may have taken effect.
    pub fn commit(self) -> M::Out<impl Future<Output = Result<Committed>>> {
        M::run(async move { Ok(self.running.commit(None).await?) })
    }

    /// Drops everything that it did.
    pub fn abort(self) {
        self.running.abort();
    }
}

impl<M: Mode> Deref for Transaction<M> {
    type Target = Tx<M>;

    fn deref(&self) -> &Tx<M> {
        &self.tx
    }
}

impl<M: Mode> DerefMut for Transaction<M> {
    fn deref_mut(&mut self) -> &mut Tx<M> {
        &mut self.tx
    }
}
