//! The client that all transactions of one [`crate::Db`] share: a machine under one short lock, and the hands beside
//! it.

use crate::open::Embedded;
use crate::precedence::Line;
use crate::stamp::Stamps;
use crate::wait::may_assist;
use crate::{Error, Result};
use client::{Client, TxnError, TxnHandle};
use node::{Hands, Node};
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;
use types::{PageId, Time};

/// The node, its hands, and what keeps them alive.
pub(crate) struct Shared {
    node: Arc<Mutex<Node>>,
    hands: Arc<dyn Hands>,
    pub(crate) patience: Duration,
    /// Who has lost to others again and again, and goes before them.
    pub(crate) line: Line,
    /// Where the stamps of new objects come from.
    pub(crate) stamps: Stamps,
    /// Whether a handle has closed the database for all.
    closed: AtomicBool,
    /// The process that opened the database: its children have neither its threads nor its connection.
    process: u32,
    /// The store that runs in this process, until it is closed.
    embedded: Mutex<Option<Embedded>>,
}

impl Shared {
    pub(crate) fn new(
        node: Arc<Mutex<Node>>,
        hands: Arc<dyn Hands>,
        patience: Duration,
        embedded: Option<Embedded>,
    ) -> Self {
        let client = node.lock().unwrap_or_else(PoisonError::into_inner).client().map(|client| client.id());
        let stamps = Stamps::of(client.expect("a Db's node hosts a client"));
        let (closed, process) = (AtomicBool::new(false), std::process::id());
        Self { node, hands, patience, line: Line::default(), stamps, closed, process, embedded: Mutex::new(embedded) }
    }

    /// Ends the database for all handles: no transaction begins any more, commits that are under way are answered, and
    /// the store's directory, if there is one, is free. Transactions that still run fail.
    pub(crate) fn close(&self) -> Result<()> {
        self.check()?;
        self.closed.store(true, SeqCst);
        let embedded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = embedded.map_or(Ok(()), Embedded::close);
        self.lock().stop("it was closed".to_owned());
        self.settle();
        ended
    }

    /// Whether a transaction can begin.
    pub(crate) fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::Forked);
        }
        if self.closed.load(SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// What the client says of a transaction, for the application.
    pub(crate) fn error(&self, error: TxnError) -> Error {
        match error {
            TxnError::Stopped(_) if self.closed.load(SeqCst) => Error::Closed,
            error => Error::of_client(error),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.hands.now()
    }

    /// Calls the client, and carries out what came of it.
    pub(crate) fn client<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        let answer = self.peek(call);
        self.settle();
        answer
    }

    /// Carries out what came of the client's last calls.
    pub(crate) fn settle(&self) {
        self.hands.settle();
    }

    /// Looks at what the client has, without effects outside of it and without asking the time.
    #[inline]
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Client) -> R) -> R {
        let unwinding = Unwinding(&*self.hands);
        let answer = look(self.lock().client().expect("a Db's node hosts a client"));
        mem::forget(unwinding);
        answer
    }

    /// Calls the client for something that has no effects outside of it.
    #[inline]
    pub(crate) fn peek<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        // Read before the lock is taken, which others wait for.
        let now = self.hands.now();
        self.look(|client| call(client, now))
    }

    /// Asks for pages that somebody is about to read.
    pub(crate) fn fetch_ahead(&self, pages: &[PageId]) {
        if self.peek(|client, now| client.fetch_ahead(now, pages)) {
            self.settle();
        }
    }

    /// Asks for pages that one operation is about to need all of.
    pub(crate) fn fetch_together(&self, pages: &[PageId]) {
        if self.peek(|client, now| client.fetch_together(now, pages)) {
            self.settle();
        }
    }

    /// A call that panicked has left the client half changed: the hands end it, and all its transactions, before anybody
    /// else calls it. The application's own panics do not come here, see [`apart`].
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(|poisoned| self.lock_anew(poisoned))
    }

    #[cold]
    fn lock_anew(&self, poisoned: PoisonError<MutexGuard<'_, Node>>) -> MutexGuard<'_, Node> {
        drop(poisoned);
        self.settle();
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the client again and again, whenever the transaction is woken, until it need not wait. A call that is
    /// answered from the cache sends nothing, so there is nothing to carry out then.
    #[inline]
    pub(crate) async fn wait<R>(
        &self,
        txn: TxnHandle,
        mut call: impl FnMut(&mut Client, Time) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let mut ask = || {
            let answer = self.peek(&mut call);
            if !matches!(answer, Ok(Poll::Ready(_))) {
                self.settle();
            }
            match answer {
                Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(error) => Poll::Ready(Err(self.error(error))),
            }
        };
        let mut waiting = Waiting { hands: &*self.hands, txn, has_waker: false };
        poll_fn(|context| {
            let answer = ask();
            if answer.is_ready() {
                waiting.has_waker = false;
                return answer;
            }
            self.hands.wake_on(txn, context.waker());
            may_assist(&self.hands, context.waker());
            // A wake that came meanwhile went to the waker of the poll before, which is another task's if the future
            // has moved. So it is asked once more, now that this task's is known.
            if !mem::replace(&mut waiting.has_waker, true) {
                return Poll::Pending;
            }
            let answer = ask();
            waiting.has_waker = answer.is_pending();
            answer
        })
        .await
    }

    /// The transaction has ended without an outcome: nobody will wait for it.
    pub(crate) fn forget(&self, txn: TxnHandle) {
        self.hands.forget(txn);
    }

    /// Waits until `time`.
    pub(crate) async fn sleep_until(&self, time: Time) {
        poll_fn(|context| {
            if self.hands.now() >= time {
                return Poll::Ready(());
            }
            self.wake_at(time, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Wakes at `time`.
    pub(crate) fn wake_at(&self, time: Time, waker: &Waker) {
        self.hands.wake_at(time, waker);
    }
}

/// Runs code of the application's under the lock. Its panic is none of the client's, which is whole: it goes on when the
/// lock is free, by [`go_on`].
#[inline]
pub(crate) fn apart<R>(run: impl FnOnce() -> R) -> thread::Result<R> {
    catch_unwind(AssertUnwindSafe(run))
}

/// What the application's code has given, or its panic.
#[inline]
pub(crate) fn go_on<R>(ran: thread::Result<R>) -> R {
    ran.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A call of the client's. If it panics, the others who wait for the client hear of it: the hands find the lock poisoned.
struct Unwinding<'a>(&'a dyn Hands);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.0.settle();
    }
}

/// An operation that may be dropped while it waits. Its waker goes with it: a wake that comes before the transaction's
/// next operation has said whom to wake must be kept for that one, and not go to a task that is no more.
struct Waiting<'a> {
    hands: &'a dyn Hands,
    txn: TxnHandle,
    has_waker: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.has_waker {
            self.hands.forget(self.txn);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let embedded = self.embedded.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process == std::process::id() {
            // Nobody is left to hear of a failure; what was committed is safe all the same.
            let _ = embedded.map(Embedded::close);
        } else {
            // The store and the connection are the parent's, and so are the threads that would be waited for.
            mem::forget((embedded, self.hands.clone()));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("patience", &self.patience).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Anywhere, Db, Error, Tx};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    /// On the disk and in memory: what waits ends, the directory is free, and what was committed is there.
    #[test]
    fn a_panic_in_a_call_of_the_clients_ends_the_database_and_loses_nothing() {
        let dir = std::env::temp_dir().join(format!("thorp-test-panic-{}", std::process::id()));
        for db in [Db::open(&dir).unwrap(), Db::in_memory().unwrap()] {
            let object = db.transact(|tx| tx.create(Anywhere, &1_u8)).unwrap();
            db.transact(|tx| tx.set_root("object", object)).unwrap();
            let (began, has_begun) = channel();
            let (go_on, may_go_on) = channel();
            let running = db.clone();
            let running = thread::spawn(move || {
                running.transact(|tx| {
                    tx.put(object, &2)?;
                    began.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    tx.put(object, &3)
                })
            });
            has_begun.recv().unwrap();
            let shared = db.shared.clone();
            thread::spawn(move || shared.look::<()>(|_| panic!("half way through a call"))).join().unwrap_err();
            go_on.send(()).unwrap();
            let ended = running.join().unwrap();
            assert!(matches!(&ended, Err(Error::Stopped(why)) if why.contains("panicked")), "{ended:?}");
            assert!(matches!(db.transact(|tx| tx.get(object)), Err(Error::Stopped(_))));
            // It says once more that it has failed, if it is on the disk; and lets go of that.
            let _ = db.close();
        }
        let again = Db::open(&dir).unwrap();
        let object = again.transact(|tx| tx.root::<u8>("object")).unwrap().unwrap();
        assert_eq!(again.transact(|tx| tx.get(object)).unwrap(), 1);
        again.close().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Its decoder, and what it looks at bytes with, run under the client's lock.
    #[test]
    fn a_panic_of_the_applications_own_ends_its_transaction_alone() {
        struct Bomb;
        impl<'de> serde::Deserialize<'de> for Bomb {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                panic!("a decoder of the application's")
            }
        }
        let db = Db::in_memory().unwrap();
        let object = db.transact(|tx| tx.create(Anywhere, &1_u8)).unwrap();
        let bytes = db.transact(|tx| tx.create_bytes(Anywhere, &[1])).unwrap();
        let panics = |body: &dyn Fn(&mut Tx) -> crate::Result<()>| {
            catch_unwind(AssertUnwindSafe(|| db.transact(|tx| body(tx)))).unwrap_err();
            assert_eq!(db.transact(|tx| tx.get(object)).unwrap(), 1);
        };
        panics(&|tx| tx.read::<_, ()>(bytes, |_| panic!("at the bytes")).map(drop));
        panics(&|tx| {
            tx.put_bytes(bytes, &[2])?;
            tx.read::<_, ()>(bytes, |_| panic!("at its own bytes")).map(drop)
        });
        panics(&|tx| tx.get(object.cast::<Bomb>()).map(drop));
    }

    #[test]
    fn a_handle_from_before_a_fork_is_refused() {
        let mut db = Db::in_memory().unwrap();
        let object = db.transact(|tx| tx.create(Anywhere, &1_u8)).unwrap();
        Arc::get_mut(&mut db.shared).unwrap().process += 1;
        let error = db.transact(|tx| tx.get(object)).unwrap_err();
        assert!(matches!(error, Error::Forked), "{error}");
        assert!(matches!(db.close(), Err(Error::Forked)));
    }
}
