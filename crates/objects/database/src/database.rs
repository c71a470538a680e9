//! The client that all transactions of one database share: a machine under one short lock, and the driver beside it.

use crate::line::Line;
use crate::wait::may_assist;
use crate::{Error, Result};
use client::{Client, TxnError, TxnHandle};
use machine::Driver;
use net::{Handle, Shared};
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;
use types::{ClientId, PageId, Time};

/// An open database: its client, the client's driver, and what keeps them alive. The handles of a front end share one.
pub struct Database {
    client: Handle<Client>,
    patience: Duration,
    /// The transactions that have lost to others again and again, and go before them.
    pub(crate) line: Line,
    /// Whether a handle has closed the database for all.
    closed: AtomicBool,
    /// The process that opened the database: its children have neither its threads nor its connection.
    process: u32,
    /// The store of this process, until it is closed.
    local: Mutex<Option<Box<dyn Local>>>,
}

/// A store that runs in this process for a database, and ends with it: one of its own, or those of a node's rounds.
pub trait Local: Send {
    /// Refuses new commits, writes everything home, and sets the directory free.
    fn close(self: Box<Self>) -> Result<()>;
}

impl Database {
    /// A database over a client and a driver that are there already: how the simulator runs what runs over TCP.
    /// `patience` is for a transaction that others are faster than.
    pub fn over(client: Shared<Client>, driver: Arc<dyn Driver>, patience: Duration) -> Arc<Self> {
        Arc::new(Self::new(client, driver, patience, None))
    }

    pub(crate) fn new(
        client: Shared<Client>,
        driver: Arc<dyn Driver>,
        patience: Duration,
        local: Option<Box<dyn Local>>,
    ) -> Self {
        let (closed, process) = (AtomicBool::new(false), std::process::id());
        Self {
            client: Handle::new(client, driver),
            patience,
            line: Line::default(),
            closed,
            process,
            local: Mutex::new(local),
        }
    }

    /// The client's id at the store.
    pub fn client_id(&self) -> ClientId {
        self.look(|client| client.id())
    }

    /// How long a transaction that others are faster than is tried again.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Ends the database for all handles: no transaction begins any more, commits that are under way are answered, and
    /// the store's directory, if there is one, is free. Transactions that still run fail.
    ///
    /// # Errors
    /// An error of the disk, and [`Error::Closed`] if it was closed before.
    pub fn close(&self) -> Result<()> {
        self.check()?;
        self.closed.store(true, SeqCst);
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = local.map_or(Ok(()), Local::close);
        // The store has answered every commit before it was closed: the client learns of that.
        self.settle();
        self.client.driver().call(&mut |hosted, _| {
            hosted.stop("it was closed");
            true
        });
        ended
    }

    /// Whether a transaction can begin.
    pub(crate) fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::Forked);
        }
        if self.closed.load(SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// The client's error of a transaction, for the application.
    pub fn error(&self, error: TxnError) -> Error {
        match error {
            TxnError::Stopped(_) if self.closed.load(SeqCst) => Error::Closed,
            error => Error::of_client(error),
        }
    }

    /// The time, as the client has it.
    pub fn now(&self) -> Time {
        self.driver().now()
    }

    /// Calls the client, and carries out what came of it.
    pub fn client<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        self.client.call_if(|client, now| (call(client, now), true))
    }

    #[inline]
    fn driver(&self) -> &Arc<dyn Driver> {
        self.client.driver()
    }

    /// Carries out what came of the client's last calls.
    pub(crate) fn settle(&self) {
        self.driver().settle();
    }

    /// Looks at what the client has, without effects outside of it and without asking the time.
    #[inline]
    pub fn look<R>(&self, look: impl FnOnce(&mut Client) -> R) -> R {
        self.client.look(look)
    }

    /// Calls the client for something that has no effects outside of it.
    #[inline]
    pub fn peek<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        // Read before the lock is taken, which others wait for.
        let now = self.driver().now();
        self.look(|client| call(client, now))
    }

    /// Asks for pages that somebody is about to read.
    pub fn fetch_ahead(&self, pages: &[PageId]) {
        self.client.call_if(|client, now| ((), client.fetch_ahead(now, pages)));
    }

    /// Asks for pages that one operation is about to need all of.
    pub fn fetch_together(&self, pages: &[PageId]) {
        self.client.call_if(|client, now| ((), client.fetch_together(now, pages)));
    }

    /// Calls the client again and again, whenever the transaction is woken, until it need not wait. A call that is
    /// answered from the cache sends nothing, so there is nothing to carry out then.
    #[inline]
    pub async fn wait<R>(
        &self,
        txn: TxnHandle,
        mut call: impl FnMut(&mut Client, Time) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let mut ask = || {
            let answer = self.client.call_if(|client, now| {
                let answer = call(client, now);
                let has_results = !matches!(answer, Ok(Poll::Ready(_)));
                (answer, has_results)
            });
            match answer {
                Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(error) => Poll::Ready(Err(self.error(error))),
            }
        };
        let mut waiting = Waiting { driver: &**self.driver(), txn, has_waker: false };
        poll_fn(|context| {
            let answer = ask();
            if answer.is_ready() {
                waiting.has_waker = false;
                return answer;
            }
            self.driver().wake_on(txn.into(), context.waker());
            may_assist(self.driver(), context.waker());
            // A wake that came in the meantime went to the waker of the poll before, which is another task's if the
            // future has moved. So it is asked once more, now that this task's is known.
            if !mem::replace(&mut waiting.has_waker, true) {
                return Poll::Pending;
            }
            let answer = ask();
            waiting.has_waker = answer.is_pending();
            answer
        })
        .await
    }

    /// Waits until others have changed something that a running transaction has read, which dooms it; or until `until`.
    ///
    /// # Errors
    /// Why the transaction can continue no more: [`Error::Doomed`] is what it waits for.
    pub async fn await_doom(&self, txn: TxnHandle, until: Time) -> Result<()> {
        let mut watching = pin!(self.wait(txn, |client, now| {
            client.watch(now, txn)?;
            Ok(if now < until { Poll::Pending } else { Poll::Ready(()) })
        }));
        poll_fn(|context| {
            self.wake_at(until, context.waker());
            watching.as_mut().poll(context)
        })
        .await
    }

    /// The transaction has ended without an outcome: nobody will wait for it.
    pub(crate) fn forget(&self, txn: TxnHandle) {
        self.driver().forget(txn.into());
    }

    /// Waits until `time`.
    pub(crate) async fn sleep_until(&self, time: Time) {
        poll_fn(|context| {
            if self.driver().now() >= time {
                return Poll::Ready(());
            }
            self.wake_at(time, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Wakes at `time`.
    pub(crate) fn wake_at(&self, time: Time, waker: &Waker) {
        self.driver().wake_at(time, waker);
    }
}

/// Runs code of the application's under the lock. Its panic is none of the client's, which is whole: it continues when
/// the lock is free, by [`go_on`].
#[inline]
pub fn apart<R>(run: impl FnOnce() -> R) -> thread::Result<R> {
    catch_unwind(AssertUnwindSafe(run))
}

/// The result of the application's code, or its panic.
#[inline]
pub fn go_on<R>(ran: thread::Result<R>) -> R {
    ran.unwrap_or_else(|panic| resume_unwind(panic))
}

/// An operation that may be dropped while it waits. Its waker goes with it: a wake that comes before the transaction's
/// next operation has said whom to wake must be kept for that one, and not go to a task that is no more.
struct Waiting<'a> {
    driver: &'a dyn Driver,
    txn: TxnHandle,
    has_waker: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.has_waker {
            self.driver.forget(self.txn.into());
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let local = self.local.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process == std::process::id() {
            // Nobody is left to learn of a failure; everything that was committed is safe all the same.
            let _ = local.map(Local::close);
        } else {
            // The store and the connection are the parent's, and so are the threads that would be waited for.
            mem::forget((local, self.client.clone()));
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("patience", &self.patience).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transaction;

    #[test]
    fn a_handle_from_before_a_fork_is_refused() {
        let mut database = Database::in_memory().unwrap();
        Arc::get_mut(&mut database).unwrap().process += 1;
        let error = Transaction::begin(&database).unwrap_err();
        assert!(matches!(error, Error::Forked), "{error}");
        assert!(matches!(database.close(), Err(Error::Forked)));
    }
}
