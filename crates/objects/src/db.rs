//! A database as the application holds it, and the loop that runs its transactions.

use crate::nested::{self, Inside};
use crate::precedence::Place;
use crate::shared::Shared;
use crate::wait::{Async, Blocking, Mode, block_on};
use crate::{AsyncTx, Error, Result, Tx};
use client::{Stats, TxnHandle};
use node::{Hands, Node};
use protocol::Outcome;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use types::{Caller, Refusal, Time};

/// The longest pause between two tries of one transaction.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The first pause, before it is doubled try by try: about one commit on a fast disk.
const PAUSE_MIN: Duration = Duration::from_micros(100);

/// The tries after which a transaction that others were faster than gets in line (see `precedence`).
const TRIES_BEFORE_LINE: u32 = 4;

/// A store that transactions run on: a directory of this process, or a server. Cloning gives another handle to the
/// same client and its cache; threads share one.
///
/// A child that the process forks has neither the database's threads nor its connection: there each transaction is
/// refused, as [`Error::Forked`], and dropping the handle does nothing. The child opens a database of its own; a
/// directory that the parent has open stays the parent's, and is locked for as long as either of the two lives, unless
/// the child executes another program.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
}

/// A database over a node and hands that stand already: how the simulator runs what runs over TCP. The node hosts a
/// client; `patience` is for a transaction that others are faster than. No part of what applications are given.
pub fn over(node: Arc<Mutex<Node>>, hands: Arc<dyn Hands>, patience: Duration) -> Db {
    Db { shared: Arc::new(Shared::new(node, hands, patience, None)) }
}

impl Db {
    /// Runs a transaction: `body` on a workspace of its own, then the commit. If others were faster the whole is done
    /// again, after a pause that grows; `body` may therefore run several times and should have no effects besides.
    ///
    /// `body` must not begin another transaction on the same database: the outer one, which may have read what the inner
    /// one changes, could be run again and again. What is to happen together is done with one `tx`.
    ///
    /// An error that `body` returns aborts the transaction and is handed back, unless the transaction was doomed: then
    /// the error may come from what `body` should not have seen, and it is run again.
    ///
    /// ```
    /// # use objects as thorp;
    /// use thorp::{Anywhere, Db, Error};
    ///
    /// let db = Db::in_memory()?;
    /// let account = db.transact(|tx| tx.create(Anywhere, &100_i64))?;
    /// let withdraw = |amount: i64| {
    ///     db.transact(|tx| {
    ///         let balance = tx.get(account)?;
    ///         if balance < amount {
    ///             return Err(Error::application("the account is overdrawn"));
    ///         }
    ///         tx.put(account, &(balance - amount))
    ///     })
    /// };
    /// withdraw(70)?;
    /// assert_eq!(withdraw(70).unwrap_err().to_string(), "the account is overdrawn");
    /// assert_eq!(db.transact(|tx| tx.get(account))?, 30);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Contended`] when the client's patience is over; [`Error::Nested`] inside of another transaction's `body`;
    /// otherwise what the store or `body` says.
    pub fn transact<R>(&self, mut body: impl FnMut(&mut Tx) -> Result<R>) -> Result<R> {
        let mut tries = Tries::begin(&self.shared);
        loop {
            let mut running = Running::<Blocking>::begin(&self.shared)?;
            let ran = {
                let _inside = Inside::enter(&self.shared);
                body(&mut running.tx)
            };
            let handle = running.tx.handle;
            match block_on(running.end(ran, &tries)) {
                Ok(answer) => return Ok(answer),
                Err(error) => block_on(tries.pause(error, handle))?,
            }
        }
    }

    /// [`Db::transact`] as a future, with operations that are futures. The closure is given the transaction itself,
    /// which keeps the future free to move between threads.
    ///
    /// ```
    /// # use objects as thorp;
    /// # fn run<F: std::future::Future + Send>(future: F) -> F::Output { thorp::wait_for(future) }
    /// # run(async {
    /// let db = thorp::Db::in_memory()?;
    /// let counter = db.transact_async(async |mut tx| tx.create(thorp::Anywhere, &1_u64).await).await?;
    /// let count = db.transact_async(async |mut tx| {
    ///     let count = tx.get(counter).await? + 1;
    ///     tx.put(counter, &count).await?;
    ///     Ok(count)
    /// }).await?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), thorp::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn transact_async<R, F>(&self, mut body: impl FnMut(AsyncTx) -> F) -> Result<R>
    where
        F: Future<Output = Result<R>>,
    {
        let mut tries = Tries::begin(&self.shared);
        loop {
            let running = Running::<Async>::begin(&self.shared)?;
            let handle = running.tx.handle;
            let ran = {
                let mut running = pin!(body(Tx::new(self.shared.clone(), handle)));
                // Other tasks run on this thread between two polls, with transactions of their own.
                poll_fn(|context| {
                    let _inside = Inside::enter(&self.shared);
                    running.as_mut().poll(context)
                })
                .await
            };
            match running.end(ran, &tries).await {
                Ok(answer) => return Ok(answer),
                Err(error) => tries.pause(error, handle).await?,
            }
        }
    }

    /// What the client can say of itself: hits, misses, commits, bytes in the cache.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// db.transact(|tx| tx.create(thorp::Anywhere, &1_u64))?;
    /// assert_eq!(db.stats().commits, 1);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.shared.client(|client, _| client.stats())
    }
}

/// Runs a future to its end on this thread, for programs without an executor.
///
/// ```
/// # use objects as thorp;
/// assert_eq!(thorp::wait_for(async { 1 + 1 }), 2);
/// ```
pub fn wait_for<F: Future>(future: F) -> F::Output {
    block_on(future)
}

/// One run of a transaction's body. Dropping it before its end, in a panic or with a cancelled future, aborts it.
struct Running<M: Mode> {
    tx: Tx<M>,
    ended: bool,
}

impl<M: Mode> Running<M> {
    fn begin(shared: &Arc<Shared>) -> Result<Self> {
        if nested::is_inside(shared) {
            return Err(Error::Nested);
        }
        shared.check()?;
        let handle = shared.look(client::Client::begin);
        Ok(Self { tx: Tx::new(shared.clone(), handle), ended: false })
    }

    /// Commits what ran well. What did not is aborted by the drop; whether it was doomed is asked before, because the
    /// body's error may only come of that.
    async fn end<R>(mut self, ran: Result<R>, tries: &Tries) -> Result<R> {
        match ran {
            Ok(answer) => {
                self.commit(tries).await?;
                Ok(answer)
            }
            Err(error) => {
                let txn = self.tx.handle;
                let checked = self.tx.shared.client(|client, _| client.check(txn));
                checked.map_err(|error| self.tx.shared.error(error))?;
                Err(error)
            }
        }
    }

    async fn commit(&mut self, tries: &Tries) -> Result<()> {
        if self.tx.changes() > 0 {
            self.tx.shared.yield_to_first(tries.place.as_ref()).await;
        }
        let (mut id, mut has_waited) = (None, false);
        let outcome = self.tx.call(|client, now, txn| {
            has_waited = id.is_some();
            if id.is_none() {
                id = Some(client.commit(now, txn)?);
            }
            Ok(client.outcome(txn)?.map_or(Poll::Pending, Poll::Ready))
        });
        let outcome = outcome.await?;
        if !has_waited {
            // What commits at once may still have let go of something.
            self.tx.shared.settle();
        }
        // The handle has ended with its outcome.
        self.ended = true;
        match outcome {
            Outcome::Committed { .. } => Ok(()),
            Outcome::Refused(refusal) => Err(Error::Refused(refusal)),
            Outcome::Unknown => Err(Error::OutcomeUnknown(id.expect("an outcome is of a commit"))),
        }
    }
}

impl<M: Mode> Drop for Running<M> {
    fn drop(&mut self) {
        if !self.ended {
            let txn: TxnHandle = self.tx.handle;
            self.tx.shared.client(|client, now| client.abort(now, txn));
            self.tx.shared.forget(txn);
        }
    }
}

/// How often and for how long one transaction was tried.
struct Tries {
    shared: Arc<Shared>,
    began: Time,
    count: u32,
    /// Its place in line, when it has lost too often.
    place: Option<Place>,
}

impl Tries {
    fn begin(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), began: shared.now(), count: 0, place: None }
    }

    /// Waits before the next try, if `error` is one that another try can cure and there is time for it. Who has only lost
    /// a race goes on at once, or gets in line: a pause would give the next race to who has won this one.
    async fn pause(&mut self, error: Error, last: TxnHandle) -> Result<()> {
        self.count += 1;
        if !is_curable(&error) {
            return Err(error);
        }
        let now = self.shared.now();
        let waited = now - self.began;
        if waited >= self.shared.patience {
            return Err(Error::Contended { tries: self.count, waited, last: Box::new(error) });
        }
        if !is_lost_race(&error) {
            self.shared.sleep_until(now + self.next_pause(now, last)).await;
        } else if self.count >= TRIES_BEFORE_LINE {
            self.place.get_or_insert_with(|| Place::take(&self.shared)).await_first().await;
        }
        Ok(())
    }

    /// Doubles try by try. Each pause is drawn from its upper half, so that transactions that have met do not meet
    /// again in step; the clock and the handle of the last try are random enough for that.
    fn next_pause(&self, now: Time, last: TxnHandle) -> Duration {
        let full = PAUSE_MIN.saturating_mul(1 << self.count.min(16)).min(PAUSE_MAX);
        let seed = now.0.wrapping_add(last.0.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let draw = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        full / 2 + full.mul_f64(draw as f64 / f64::from(u32::MAX)) / 2
    }
}

/// Whether others were faster, and nothing else stands in the way.
fn is_lost_race(error: &Error) -> bool {
    matches!(error, Error::Doomed | Error::Refused(Refusal::Stale(_)))
}

/// Whether running the transaction again can help. A store that is closing is about to be a store that starts.
fn is_curable(error: &Error) -> bool {
    match error {
        Error::Doomed | Error::Refused(Refusal::Closing) => true,
        Error::Refused(refusal) => refusal.caller() == Caller::Retry,
        _ => false,
    }
}
