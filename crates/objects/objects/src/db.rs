//! A database as the application holds it, and the loop that runs its transactions.

use crate::stamp::Stamps;
use crate::{AsyncTx, Error, Result, Tx};
use client::{Client, Stats, TxnHandle};
use database::{Async, Blocking, Cure, Database, GaveUp, Inside, Mode, Transaction, Tries, apart, block_on};
use machine::{Driver, Hosted};
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use types::MAIN_SPACE;

/// A store that transactions run on: a directory of this process, or a server. Cloning gives another handle to the
/// same client and its cache; threads share one.
///
/// A database is opened on one [`Space`](crate::Space) of the store, the main one unless it is told otherwise:
/// there it looks up names, and creates objects that are to lie near nothing. [`Db::space`] gives a handle on another.
///
/// A child that the process forks has neither the database's threads nor its connection: there each transaction is
/// refused, as [`Error::Forked`], and dropping the handle does nothing. The child opens a database of its own; a
/// directory that the parent has open stays the parent's, and is locked for as long as either of the two lives, unless
/// the child executes another program.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) database: Arc<Database>,
    /// Where the stamps of new objects come from.
    pub(crate) stamps: Arc<Stamps>,
    /// The space that transactions look up names in.
    pub(crate) space: u32,
    /// Whether a space that is asked for is made where there is none.
    pub(crate) creates: bool,
}

/// A database over a client and a driver that are there already: how the simulator runs what runs over TCP. `patience`
/// is for a transaction that others are faster than. No part of what applications are given.
pub fn over(client: Arc<Mutex<Hosted<Client>>>, driver: Arc<dyn Driver>, patience: Duration) -> Db {
    Db::on(Database::over(client, driver, patience))
}

impl Db {
    /// Objects in the main space of an open database.
    pub(crate) fn on(database: Arc<Database>) -> Self {
        let stamps = Arc::new(Stamps::of(database.client_id()));
        Self { database, stamps, space: MAIN_SPACE, creates: true }
    }

    /// The operations of a running transaction.
    pub(crate) fn tx<M: Mode>(&self, running: &Transaction) -> Tx<M> {
        Tx::new(self.database.clone(), self.stamps.clone(), self.space, running.handle())
    }

    /// Runs a transaction: `body` on a workspace of its own, then the commit. If others were faster the whole is done
    /// again, after a pause that grows; `body` may therefore run several times and should have no effects besides.
    ///
    /// `body` must not begin another transaction on the same database: the outer one, which may have read what the
    /// inner one changes, could be run again and again. Changes that are to happen together are made with one `tx`.
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
    pub fn transact<R>(&self, body: impl FnMut(&mut Tx) -> Result<R>) -> Result<R> {
        self.run(body, Transaction::begin)
    }

    /// [`Db::transact`] for a transaction that begins no earlier than everything that was acknowledged before, to any
    /// client: `body` sees it in its first run. Any transaction that commits has seen it in the end; without this, one
    /// that reads from the cache may first be shown a value from a moment ago, and learn of that when it commits. It
    /// costs a round trip to each node that has something it reads.
    ///
    /// Call it when word of a change has come on another way than through the store, or when `body` has effects of its
    /// own that must not follow from what is out of date.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let drawing = db.transact(|tx| tx.create(thorp::Anywhere, &"as built".to_string()))?;
    /// // A colleague has called: the drawing is changed.
    /// let text = db.transact_fresh(|tx| tx.get(drawing))?;
    /// # assert_eq!(text, "as built");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::transact`]. A read fails when the node of an object cannot be reached in time, even if the object
    /// is cached.
    pub fn transact_fresh<R>(&self, body: impl FnMut(&mut Tx) -> Result<R>) -> Result<R> {
        self.run(body, Transaction::begin_fresh)
    }

    fn run<R>(
        &self,
        mut body: impl FnMut(&mut Tx) -> Result<R>,
        begin: impl Fn(&Arc<Database>) -> database::Result<Transaction>,
    ) -> Result<R> {
        let mut tries = Tries::begin(&self.database);
        loop {
            let running = begin(&self.database)?;
            let mut tx = self.tx::<Blocking>(&running);
            let ran = {
                let _inside = Inside::enter(&self.database);
                apart(|| body(&mut tx))
            };
            match block_on(end(running, ran, &tries)) {
                Ok(answer) => return Ok(answer),
                Err(error) => block_on(pause(&mut tries, error, tx.handle))?,
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
    pub async fn transact_async<R, F>(&self, body: impl FnMut(AsyncTx) -> F) -> Result<R>
    where
        F: Future<Output = Result<R>>,
    {
        self.run_async(body, Transaction::begin).await
    }

    /// [`Db::transact_fresh`] as a future.
    pub async fn transact_fresh_async<R, F>(&self, body: impl FnMut(AsyncTx) -> F) -> Result<R>
    where
        F: Future<Output = Result<R>>,
    {
        self.run_async(body, Transaction::begin_fresh).await
    }

    async fn run_async<R, F>(
        &self,
        mut body: impl FnMut(AsyncTx) -> F,
        begin: impl Fn(&Arc<Database>) -> database::Result<Transaction>,
    ) -> Result<R>
    where
        F: Future<Output = Result<R>>,
    {
        let mut tries = Tries::begin(&self.database);
        loop {
            let running = begin(&self.database)?;
            let handle = running.handle();
            let ran = {
                let mut running = pin!(body(self.tx::<Async>(&running)));
                // Other tasks run on this thread between two polls, with transactions of their own.
                poll_fn(|context| {
                    let _inside = Inside::enter(&self.database);
                    match apart(|| running.as_mut().poll(context)) {
                        Ok(polled) => polled.map(Ok),
                        Err(panic) => Poll::Ready(Err(panic)),
                    }
                })
                .await
            };
            match end(running, ran, &tries).await {
                Ok(answer) => return Ok(answer),
                Err(error) => pause(&mut tries, error, handle).await?,
            }
        }
    }

    /// The client's figures: hits, misses, commits, bytes in the cache.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// db.transact(|tx| tx.create(thorp::Anywhere, &1_u64))?;
    /// assert_eq!(db.stats().commits, 1);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.database.peek(|client, _| client.stats())
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

/// Commits what ran well. The error of a body, or its panic, may come of something that it should not have seen: it
/// counts when what the body has read was true. An error of the database's own needs no proof, except for damage: an
/// object whose parts were read at two moments looks damaged.
async fn end<R>(running: Transaction, ran: thread::Result<Result<R>>, tries: &Tries) -> Result<R> {
    match ran {
        Ok(Ok(answer)) => {
            running.commit(Some(tries)).await?;
            Ok(answer)
        }
        Ok(Err(error)) if error.of_database().is_some() && !matches!(error, Error::Damaged { .. }) => {
            running.check()?;
            Err(error)
        }
        Ok(Err(error)) => {
            running.verify().await?;
            Err(error)
        }
        Err(panic) => match running.verify().await {
            Err(error) if Cure::of(&error).is_some() => Err(error.into()),
            _ => resume_unwind(panic),
        },
    }
}

/// Waits before the next try, if `error` is one that another try can cure and there is time for it.
async fn pause(tries: &mut Tries, error: Error, last: TxnHandle) -> Result<()> {
    let Some(cure) = error.cure() else { return Err(error) };
    let paused = tries.pause(cure, last).await;
    paused.map_err(|GaveUp { tries, waited }| Error::Contended { tries, waited, last: Box::new(error) })
}

#[cfg(test)]
mod tests {
    use crate::{Anywhere, Db, Error, Tx};
    use std::panic::{AssertUnwindSafe, catch_unwind};
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
            let database = db.database.clone();
            thread::spawn(move || database.look::<()>(|_| panic!("half way through a call"))).join().unwrap_err();
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
}
