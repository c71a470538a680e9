//! A transaction reads and writes: a hit is one look into its read set, and one into the cache where it has not been.

use crate::txns::Txn;
use crate::workspace::Touched;
use crate::{Client, Read, Seen, TxnError, TxnHandle, Write};
use alloc::vec::Vec;
use bytes::Bytes;
use cache::{Cache, FrameNo, Slot};
use core::mem;
use types::limits::SLOTS_MAX;
use types::{ObjectId, ObjectPage, PageId, SlotSet, Time};

/// Where the value of an object is.
enum Found {
    /// In the workspace, at this place.
    Own(usize),
    /// In the cache; the transaction has touched the page at this place, and has read the object before or not.
    Cached { frame: FrameNo, place: usize, again: bool },
    /// No page has such a slot.
    Nowhere,
    /// Perhaps in the cache, and the page's node has not told everything that the transaction has to see.
    Untold,
    /// Not here, or a hole in the page that is at this frame.
    Fault(Option<FrameNo>),
}

impl Client {
    /// Reads an object.
    pub fn read(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Read<'_>, TxnError> {
        match self.locate(txn, object)? {
            Found::Fault(frame) => self.fault(now, txn, object, frame).map(|()| Read::Wait),
            Found::Untold => self.await_told(now, txn, object).map(|()| Read::Wait),
            found => self.value(txn, object, &found),
        }
    }

    /// Reads an object if it is here; [`Read::Wait`] means that it is not, and that [`Client::read`] should be called.
    /// It sends nothing and so does not ask what time it is, which takes as long as the rest of a hit.
    ///
    /// An object that the transaction reads again is put into `seen`, with all else that it has read of the page: to be
    /// looked up there first, where no lock is needed. An object that is read once costs nothing for that.
    #[inline]
    pub fn hit(&mut self, txn: TxnHandle, object: ObjectId, seen: &mut Seen) -> Result<Read<'_>, TxnError> {
        let found = self.locate(txn, object)?;
        if let Found::Cached { frame, place, again: true } = found {
            let running = self.txns.running(txn)?;
            seen.keep(&running.stale, running.workspace.at(place), self.cache.at(frame));
        }
        self.value(txn, object, &found)
    }

    #[inline]
    fn value(&mut self, txn: TxnHandle, object: ObjectId, found: &Found) -> Result<Read<'_>, TxnError> {
        Ok(match *found {
            Found::Cached { frame, .. } => {
                self.stats.hits += 1;
                match self.cache.at(frame).slot(object.slot) {
                    Slot::Value(value) => Read::Value(value),
                    Slot::Free | Slot::Hole => Read::Absent,
                }
            }
            Found::Own(place) => {
                let workspace = &self.txns.running(txn)?.workspace;
                workspace.own(place, object).map_or(Read::Absent, |value| Read::Value(value))
            }
            Found::Nowhere => Read::Absent,
            Found::Fault(_) | Found::Untold => Read::Wait,
        })
    }

    /// Returns an object a new value; a slot that was free becomes an object.
    pub fn write(&mut self, now: Time, txn: TxnHandle, object: ObjectId, value: Bytes) -> Result<Write, TxnError> {
        self.change(now, txn, object, Some(value))
    }

    /// Ends an object.
    pub fn delete(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Write, TxnError> {
        self.change(now, txn, object, None)
    }

    /// The slots that the transaction has read so far, page by page. Those that it has written are among them.
    pub fn reads(&mut self, txn: TxnHandle) -> Result<Vec<(PageId, SlotSet)>, TxnError> {
        let pages = self.txns.running(txn)?.workspace.pages();
        let reads = pages.iter().map(|touched| (touched.page, touched.all_reads()));
        Ok(reads.filter(|(_, slots)| !slots.is_empty()).collect())
    }

    /// An operation of the transaction begins to write: [`Client::take_back`] undoes what it writes from here on.
    pub fn begin_operation(&mut self, txn: TxnHandle) -> Result<(), TxnError> {
        self.txns.running(txn)?.workspace.begin_operation();
        Ok(())
    }

    /// The operation that began last has failed, or was dropped: its writes are undone. A transaction that can commit
    /// no more keeps it, which nobody will see.
    pub fn take_back(&mut self, txn: TxnHandle) {
        let Ok(running) = self.txns.running(txn) else { return };
        running.workspace.take_back();
        let has_writes = |page: &PageId| running.workspace.get(*page).is_some_and(Touched::has_writes);
        let (kept, unused): (Vec<_>, Vec<_>) = mem::take(&mut running.taken).into_iter().partition(has_writes);
        running.taken = kept;
        for &page in &unused {
            running.workspace.disown(page);
        }
        self.allocator.give_back(&unused, &mut self.cache);
    }

    /// Whether transactions may change anything.
    pub(crate) fn check_writable(&self) -> Result<(), TxnError> {
        if self.config.read_only { Err(TxnError::ReadOnly) } else { Ok(()) }
    }

    /// Finds an object, and marks it as read if it is in the cache.
    #[inline]
    fn locate(&mut self, txn: TxnHandle, object: ObjectId) -> Result<Found, TxnError> {
        let running = self.txns.running(txn)?;
        let workspace = &mut running.workspace;
        let place = workspace.find(object.page);
        if place.is_some_and(|place| workspace.at(place).written(object.slot).is_some()) {
            return Ok(place.map_or(Found::Nowhere, Found::Own));
        }
        if running.moment > 0 && !self.moments.are_told(&self.nodes, object.page, running.moment) {
            return Ok(Found::Untold);
        }
        let known = place.and_then(|place| workspace.at(place).frame);
        let known = known.filter(|&frame| self.cache.is_at(frame, object.page));
        let frame = match known.or_else(|| self.cache.find(object.page)) {
            Some(frame) if !self.cache.at(frame).is_hole(object.slot) => frame,
            with_hole => return Ok(Found::Fault(with_hole)),
        };
        if usize::from(object.slot) >= SLOTS_MAX {
            return Ok(Found::Nowhere);
        }
        let place = match place {
            Some(place) => place,
            None => workspace.touch(object.page, Some(frame)).map_err(|_| TxnError::TooLarge)?,
        };
        if known.is_none() {
            workspace.at_mut(place).frame = Some(frame);
        }
        let again = !workspace.mark_read(place, object.slot);
        if known.is_none() && self.cache.count_use(frame) {
            self.stats.prefetch_hits += 1;
            self.nodes.of_mut(object.page).fetches.used(object.page);
        }
        if !self.claims.is_empty() {
            self.claims.has_looked(object.page, txn, running, &mut self.cache);
        }
        Ok(Found::Cached { frame, place, again })
    }

    fn change(&mut self, now: Time, txn: TxnHandle, object: ObjectId, value: Option<Bytes>) -> Result<Write, TxnError> {
        self.check_writable()?;
        if usize::from(object.slot) >= SLOTS_MAX {
            return Ok(Write::Full);
        }
        match self.locate(txn, object)? {
            Found::Fault(frame) => return self.fault(now, txn, object, frame).map(|()| Write::Wait),
            Found::Untold => return self.await_told(now, txn, object).map(|()| Write::Wait),
            Found::Own(_) | Found::Cached { .. } | Found::Nowhere => {}
        }
        let has_room = self.txns.running(txn)?.put_over(object, value, &self.cache)?;
        Ok(if has_room { Write::Done } else { Write::Full })
    }
}

impl Txn {
    /// Puts a value over an object's; says whether there is room.
    pub(crate) fn put_over(&mut self, object: ObjectId, value: Option<Bytes>, cache: &Cache) -> Result<bool, TxnError> {
        let workspace = &mut self.workspace;
        let frame = cache.find(object.page);
        let place = match workspace.find(object.page) {
            Some(place) => place,
            None => workspace.touch(object.page, frame).map_err(|_| TxnError::TooLarge)?,
        };
        let empty = ObjectPage::empty();
        let image = frame.map_or(&empty, |frame| cache.at(frame).page());
        let room = workspace.write(place, object.slot, value, image).map_err(|_| TxnError::TooLarge)?;
        if room.is_ok() {
            workspace.mark_read(place, object.slot);
        }
        Ok(room.is_ok())
    }
}
