//! A running transaction, as the application sees it.

use crate::format::Kind;
use crate::stamp::Stamps;
use crate::value::{self, Target, Wanted};
use crate::{Near, Ref, Result};
use bytes::Bytes;
use client::{Client, Created, Read, Seen, TxnError, TxnHandle, Write};
use database::{Async, Blocking, Database, Mode, apart, go_on};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;
use types::{ObjectId, PageId, SlotChange, Time};

/// A running transaction: given to the closure of [`crate::Db::transact`], over when the closure returns; or begun by
/// [`crate::Db::begin`], over with its commit.
///
/// Every operation exists once. In a blocking transaction it returns its result, in an [`AsyncTx`] a future of it.
/// Reads and writes go to the transaction's own workspace: nobody else sees them before the commit, and an aborted
/// transaction leaves no trace.
///
/// An operation that fails has no effect on the transaction, and neither has one whose future is dropped before it is
/// done: however many objects it would have written, all of them are as they were before it. The transaction continues
/// without it. (Its reads count as read.)
///
/// A transaction that has read what others changed in the meantime is *doomed*: each further operation says so, by
/// [`crate::Error::Doomed`]. Hand it on with `?`; the closure is then run again from its beginning.
#[derive(Debug)]
pub struct Tx<M: Mode = Blocking> {
    pub(crate) database: Arc<Database>,
    pub(crate) stamps: Arc<Stamps>,
    /// Where names are looked up, and objects are created that are to lie near nothing.
    pub(crate) space: u32,
    pub(crate) handle: TxnHandle,
    /// Slots that need not be asked for again.
    seen: Seen,
    /// Whether the running operation has written something.
    has_written: bool,
    /// How often the transaction has changed something, or taken a change back.
    changes: u64,
    mode: PhantomData<fn() -> M>,
}

/// Objects of a page that [`Tx::names_read`] names one by one; beyond, it names the page.
pub const OBJECTS_NAMED_MAX: usize = 8;

/// A transaction whose operations are futures.
pub type AsyncTx = Tx<Async>;

impl<M: Mode> Tx<M> {
    pub(crate) fn new(database: Arc<Database>, stamps: Arc<Stamps>, space: u32, handle: TxnHandle) -> Self {
        let seen = Seen::default();
        Self { database, stamps, space, handle, seen, has_written: false, changes: 0, mode: PhantomData }
    }

    /// The value of an object.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let sum = db.transact(|tx| {
    ///     let numbers = tx.create(thorp::Anywhere, &vec![1_u64, 2, 3])?;
    ///     Ok(tx.get(numbers)?.iter().sum::<u64>())
    /// })?;
    /// assert_eq!(sum, 6);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`] if it was deleted, [`crate::Error::WrongKind`] if it holds something else.
    pub fn get<T: DeserializeOwned>(&mut self, object: Ref<T>) -> M::Out<impl Future<Output = Result<T>>> {
        M::run_or_wait(
            self,
            |tx| match tx.try_now(object.into(), Kind::Value, |bytes| value::decode(object.id(), bytes)) {
                Ok(Ok(value)) => Ok(Ok(value)),
                _ => Err(tx),
            },
            |tx| tx.load(object),
        )
    }

    /// Returns an object a new value, larger or smaller as it may be.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let counter = db.transact(|tx| tx.create(thorp::Anywhere, &1_u64))?;
    /// db.transact(|tx| {
    ///     let count = tx.get(counter)?;
    ///     tx.put(counter, &(count + 1))
    /// })?;
    /// assert_eq!(db.transact(|tx| tx.get(counter))?, 2);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn put<T>(&mut self, object: Ref<T>, value: &T) -> M::Out<impl Future<Output = Result<()>>>
    where
        T: Serialize + DeserializeOwned,
    {
        let encoded = value::encode(value);
        M::run(async move {
            let operation = Operation::begin(self);
            let stored = operation.tx.store(object, encoded?, Missing::IsAnError).await;
            operation.end(stored)
        })
    }

    /// Creates an object: in the page of `near` if it has room, so that a client that fetches the one has the other
    /// too, else close to what was created last.
    pub fn create<T>(&mut self, near: impl Near, value: &T) -> M::Out<impl Future<Output = Result<Ref<T>>>>
    where
        T: Serialize + DeserializeOwned,
    {
        let (near, encoded) = (near.near(), value::encode(value));
        M::run(async move {
            let operation = Operation::begin(self);
            let added = operation.tx.add_stamped(near, encoded?).await;
            operation.end(added)
        })
    }

    /// Ends an object. References to it dangle: reading or writing through one is an error from now on, whatever comes
    /// to be in the object's place.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let note = db.transact(|tx| tx.create(thorp::Anywhere, &"buy milk".to_string()))?;
    /// db.transact(|tx| tx.delete(note))?;
    /// assert!(matches!(db.transact(|tx| tx.get(note)), Err(thorp::Error::NoSuchObject(_))));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn delete<T: ?Sized>(&mut self, object: Ref<T>) -> M::Out<impl Future<Output = Result<()>>> {
        M::run(async move {
            let operation = Operation::begin(self);
            let removed = operation.tx.remove(object).await;
            operation.end(removed)
        })
    }

    /// The bytes of an object that was created with [`Tx::create_bytes`]; `None` if it is gone.
    pub fn get_bytes<T: ?Sized>(&mut self, object: Ref<T>) -> M::Out<impl Future<Output = Result<Option<Vec<u8>>>>> {
        M::run(async move { self.fetch(object, Wanted::BYTES, <[u8]>::to_vec).await })
    }

    /// Shows the bytes of an object to `look`, in place: a cached object is not copied. `None` if it is gone.
    ///
    /// `look` may run under the lock that all transactions of the process share: it should be short, and using the
    /// database inside of it may never return.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let lines = db.transact(|tx| {
    ///     let text = tx.create_bytes(thorp::Anywhere, b"one\ntwo\n")?;
    ///     tx.read(text, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
    /// })?;
    /// assert_eq!(lines, Some(2));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn read<T: ?Sized, R>(
        &mut self,
        object: Ref<T>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> M::Out<impl Future<Output = Result<Option<R>>>> {
        M::run_or_wait(
            (self, look),
            |(tx, look)| match tx.try_now(object.into(), Kind::Bytes, look) {
                Ok(seen) => Ok(Ok(Some(seen))),
                Err(look) => Err((tx, look)),
            },
            |(tx, look)| tx.fetch(object, Wanted::BYTES, look),
        )
    }

    /// Says that these objects are about to be read: what is not in the cache is asked for at once, in one round trip,
    /// and the reads that follow find it there or under way. Has no effect on what the transaction sees or conflicts
    /// with, and returns without waiting.
    ///
    /// ```
    /// # use objects as thorp;
    /// # use thorp::{Anywhere, Ref};
    /// # let db = thorp::Db::in_memory()?;
    /// # let parts: Vec<Ref<u64>> = db.transact(|tx| (1..=3).map(|n| tx.create(Anywhere, &n)).collect())?;
    /// let mass: u64 = db.transact(|tx| {
    ///     tx.read_ahead(parts.iter().map(|part| part.id()))?;
    ///     parts.iter().map(|&part| tx.get(part)).sum()
    /// })?;
    /// assert_eq!(mass, 6);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn read_ahead(&mut self, objects: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        let mut pages: Vec<PageId> = objects.into_iter().map(|object| object.page).collect();
        // Objects that are about to be read together lie together.
        pages.dedup();
        self.database.look(|client| client.check(self.handle)).map_err(|error| self.database.error(error))?;
        self.database.fetch_ahead(&pages);
        Ok(())
    }

    /// The names of everything that the transaction has read so far, for a cache beside Thorp's own: a web response
    /// that is made from it depends on these, and `thorp watch` has it invalidated before any of them changes visibly.
    /// They stand for values that were looked at, for places that were looked into in vain, and for what leads there,
    /// as a map's inner parts; so a response names everything that could change it.
    ///
    /// A name is that of an object, or of its page where more than [`OBJECTS_NAMED_MAX`] objects of one page were read.
    /// It has letters, digits and `:/.` alone. Use the names of a transaction that commits: call this last in its
    /// closure.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let note = db.transact(|tx| tx.create(thorp::Anywhere, &"buy milk".to_string()))?;
    /// let (body, names) = db.transact(|tx| Ok((tx.get(note)?, tx.names_read()?)))?;
    /// // Fields of the response: `Cache-Groups: "thorp:0/0.1", "thorp:0/5.0"`
    /// let groups: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    /// let field = format!("Cache-Groups: {}", groups.join(", "));
    /// # assert_eq!(body, "buy milk");
    /// # assert!(field.contains(&format!("\"thorp:{}\"", note.id())), "{field}");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Doomed`], as of each operation.
    pub fn names_read(&self) -> Result<Vec<String>> {
        let reads = self.database.look(|client| client.reads(self.handle));
        let reads = reads.map_err(|error| self.database.error(error))?;
        let mut names = Vec::new();
        for (page, slots) in reads {
            if slots.len() > OBJECTS_NAMED_MAX {
                names.push(page.name());
            } else {
                names.extend(slots.iter().map(|slot| ObjectId::new(page, slot).name()));
            }
        }
        Ok(names)
    }

    /// Returns an object new bytes.
    pub fn put_bytes<T: ?Sized>(&mut self, object: Ref<T>, bytes: &[u8]) -> M::Out<impl Future<Output = Result<()>>> {
        let encoded = raw(bytes);
        M::run(async move {
            let operation = Operation::begin(self);
            let stored = operation.tx.store(object, encoded, Missing::IsAnError).await;
            operation.end(stored)
        })
    }

    /// Creates an object of bytes.
    pub fn create_bytes(&mut self, near: impl Near, bytes: &[u8]) -> M::Out<impl Future<Output = Result<Ref<[u8]>>>> {
        let (near, encoded) = (near.near(), raw(bytes));
        M::run(async move {
            let operation = Operation::begin(self);
            let added = operation.tx.add_stamped(near, encoded).await;
            operation.end(added)
        })
    }
}

/// An operation that writes takes effect as a whole or not at all: its writes are taken back when it fails, or when its
/// future is dropped.
pub(crate) struct Operation<'a, M: Mode> {
    pub(crate) tx: &'a mut Tx<M>,
}

impl<'a, M: Mode> Operation<'a, M> {
    pub(crate) fn begin(tx: &'a mut Tx<M>) -> Self {
        tx.has_written = false;
        Self { tx }
    }

    /// The operation is over; what it gives is handed on.
    pub(crate) fn end<R>(self, result: Result<R>) -> Result<R> {
        if result.is_ok() {
            self.tx.has_written = false;
        }
        result
    }
}

impl<M: Mode> Drop for Operation<'_, M> {
    fn drop(&mut self) {
        if std::mem::take(&mut self.tx.has_written) {
            let txn = self.tx.handle;
            self.tx.changes += 1;
            self.tx.database.look(|client| client.take_back(txn));
        }
    }
}

/// The meaning of a write to a slot without an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The caller holds a reference that dangles.
    IsAnError,
    /// The object begins with this write.
    IsCreated,
}

/// The parts that all operations are made of: slots, and the client's calls.
impl<M: Mode> Tx<M> {
    /// Shows an object's value to `look`, if it is in a slot that is in the cache; else gives `look` back.
    #[inline]
    pub(crate) fn try_now<R, L: FnOnce(&[u8]) -> R>(
        &mut self,
        target: Target,
        kind: Kind,
        look: L,
    ) -> std::result::Result<R, L> {
        let object = target.object;
        if let Some(value) = self.seen.get(object).and_then(|bytes| value::inline_of(target, kind, bytes)) {
            return Ok(look(value));
        }
        let seen = self.database.look(|client| match client.hit(self.handle, object, &mut self.seen) {
            Ok(Read::Value(bytes)) => match value::inline_of(target, kind, bytes) {
                Some(value) => Ok(apart(|| look(value))),
                None => Err(look),
            },
            _ => Err(look),
        });
        seen.map(go_on)
    }

    /// Shows the bytes of a slot to `look`, header and all.
    pub(crate) async fn read_slot<R>(&self, object: ObjectId, mut look: impl FnMut(&[u8]) -> R) -> Result<Option<R>> {
        let seen = self
            .call(|client, now, txn| {
                Ok(match client.read(now, txn, object)? {
                    Read::Wait => Poll::Pending,
                    Read::Absent => Poll::Ready(None),
                    Read::Value(bytes) => Poll::Ready(Some(apart(|| look(bytes)))),
                })
            })
            .await?;
        Ok(seen.map(go_on))
    }

    /// Writes the bytes of a slot.
    pub(crate) async fn write(&mut self, object: ObjectId, bytes: &Bytes) -> Result<Fits> {
        self.seen.forget(object.page);
        self.change(|client, now, txn| Ok(fits(client.write(now, txn, object, bytes.clone())?))).await
    }

    /// Frees a slot.
    pub(crate) async fn delete_slot(&mut self, object: ObjectId) -> Result<()> {
        self.seen.forget(object.page);
        self.change(|client, now, txn| Ok(fits(client.delete(now, txn, object)?).map(drop))).await
    }

    /// Takes a free slot of a space and gives it its bytes.
    pub(crate) async fn create_slot(&mut self, space: u32, near: Option<ObjectId>, bytes: Bytes) -> Result<ObjectId> {
        self.change(|client, now, txn| {
            Ok(match client.create(now, txn, space, near, bytes.clone())? {
                Created::Object(object) => Poll::Ready(object),
                Created::Wait => Poll::Pending,
            })
        })
        .await
    }

    /// Takes an empty page of a space, behind `near` if possible, and gives its first slot these bytes. Nothing else is
    /// created there.
    pub(crate) async fn create_apart(&mut self, space: u32, near: Option<PageId>, bytes: Bytes) -> Result<PageId> {
        self.change(|client, now, txn| {
            Ok(match client.create_apart(now, txn, space, near, bytes.clone())? {
                Created::Object(object) => Poll::Ready(object.page),
                Created::Wait => Poll::Pending,
            })
        })
        .await
    }

    /// Changes slots of one page, all of them in one call. `plan` reads what it needs, and returns the changes when it
    /// need not wait, or the reason why there can be none.
    pub(crate) async fn change_page<E>(
        &mut self,
        page: PageId,
        mut plan: impl FnMut(&mut Client, Time, TxnHandle) -> Result<Plan<E>, TxnError>,
    ) -> Result<Result<Fits, E>> {
        self.seen.forget(page);
        let is_first = !self.has_written;
        let mut has_begun = false;
        let changed = self.call(|client, now, txn| {
            let changes = match plan(client, now, txn)? {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(why)) => return Ok(Poll::Ready(Err(why))),
                Poll::Ready(Ok(changes)) => changes,
            };
            if is_first && !has_begun && !changes.is_empty() {
                client.begin_operation(txn)?;
            }
            has_begun |= !changes.is_empty();
            for SlotChange { slot, value } in changes {
                let object = ObjectId::new(page, slot);
                let write = match value {
                    Some(bytes) => client.write(now, txn, object, bytes)?,
                    None => client.delete(now, txn, object)?,
                };
                match fits(write) {
                    Poll::Ready(Fits::Yes) => {}
                    Poll::Ready(Fits::No) => return Ok(Poll::Ready(Ok(Fits::No))),
                    // The slots were just read, so their page is here.
                    Poll::Pending => return Ok(Poll::Pending),
                }
            }
            Ok(Poll::Ready(Ok(Fits::Yes)))
        });
        let changed = changed.await;
        if has_begun {
            // Also where it has failed half-way: what was written is taken back.
            (self.has_written, self.changes) = (true, self.changes + 1);
        }
        changed
    }

    /// Calls the client for a change until it need not wait. The first change of an operation is what it is taken back
    /// to.
    async fn change<R>(
        &mut self,
        mut change: impl FnMut(&mut Client, Time, TxnHandle) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let is_first = !self.has_written;
        let changed = self
            .call(|client, now, txn| {
                if is_first {
                    client.begin_operation(txn)?;
                }
                change(client, now, txn)
            })
            .await?;
        (self.has_written, self.changes) = (true, self.changes + 1);
        Ok(changed)
    }

    /// How often the transaction has changed something, or taken a change back.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Calls the client until it need not wait.
    #[inline]
    pub(crate) async fn call<R>(
        &self,
        mut call: impl FnMut(&mut Client, Time, TxnHandle) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let txn = self.handle;
        Ok(self.database.wait(txn, |client, now| call(client, now, txn)).await?)
    }
}

/// The changes of one page, or the reason why there can be none, once nothing has to be waited for.
pub(crate) type Plan<E> = Poll<Result<Vec<SlotChange>, E>>;

/// Whether a value has room in its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fits {
    Yes,
    No,
}

fn fits(write: Write) -> Poll<Fits> {
    match write {
        Write::Done => Poll::Ready(Fits::Yes),
        Write::Full => Poll::Ready(Fits::No),
        Write::Wait => Poll::Pending,
    }
}

/// Bytes as they are in a slot.
fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = value::inline(Kind::Bytes, bytes.len());
    encoded.extend_from_slice(bytes);
    encoded
}
