//! Byte values: bytes that transactions read and write in part.
//!
//! The root is an object that never moves: the value's identity, with its length. Behind it are pages of 4 KiB, each
//! with 64 lines as its slots, so that lines are what transactions conflict about, what is logged and what is sent.
//! Pages that were never written are missing.

use crate::byte_head::{Head, PAGE_BYTES};
use crate::byte_line::{Piece, ZEROS, line_in, slot_of};
use crate::byte_table::{self, IMAGE_BYTES};
use crate::format::Kind;
use crate::slots::{self, Change, Run};
use crate::tx::{Fits, Operation};
use crate::value::{self, Slot, Value, Wanted};
use crate::{Error, Mode, Near, Ref, Result, Tx};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::future::Future;
use std::ops::{Bound, Range, RangeBounds};
use types::limits::{BYTE_VALUE_BYTES_MAX, BYTES_PER_READ_MAX};
use types::{ObjectId, PageId, Refusal};

/// Bytes of any length up to 512 GiB that transactions read and write in part. Transactions conflict if they use the
/// same line, of 64 bytes; those that write different lines do not. Only what was written takes room.
///
/// The handle is a reference, a value itself, and has no effect until it is used with a transaction.
///
/// ```
/// # use objects as thorp;
/// use thorp::Db;
///
/// let db = Db::in_memory()?;
/// let image = db.transact(|tx| tx.bytes("image"))?;
/// db.transact(|tx| image.write(tx, 1_000_000, b"pixels"))?;
/// db.transact(|tx| {
///     assert_eq!(image.len(tx)?, 1_000_006);
///     assert_eq!(image.read(tx, 999_998..1_000_003)?, b"\0\0pix");
///     Ok(())
/// })?;
/// # Ok::<(), thorp::Error>(())
/// ```
///
/// Every operation reads the length, so one that changes it conflicts with all others. One transaction can write up to
/// 60 MiB.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByteValue {
    root: Ref<()>,
}

impl ByteValue {
    /// The byte value whose root is this object. Whether it is one is checked when it is used.
    pub const fn new(root: Ref<Self>) -> Self {
        Self { root: root.cast() }
    }

    /// The object that is the value's root: its identity. Deleting it ends a value of length 0, and leaves nothing
    /// behind; set the length to 0 first.
    pub const fn root(self) -> Ref<Self> {
        self.root.cast()
    }

    /// Where the value's root is.
    pub const fn id(self) -> ObjectId {
        self.root.id()
    }

    /// Creates a byte value without a name, to be referred to from another object. It has length 0.
    ///
    /// ```
    /// # use objects as thorp;
    /// # use thorp::{Anywhere, ByteValue, Db};
    /// # let db = Db::in_memory()?;
    /// let scan = db.transact(|tx| {
    ///     let scan = ByteValue::create(tx, Anywhere)?;
    ///     scan.write(tx, 0, b"pixels")?;
    ///     Ok(scan)
    /// })?;
    /// # assert_eq!(db.transact(|tx| scan.read(tx, ..))?, b"pixels");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn create<M: Mode>(tx: &mut Tx<M>, near: impl Near) -> M::Out<impl Future<Output = Result<Self>>> {
        let near = near.near();
        M::run(async move {
            let operation = Operation::begin(tx);
            let begun = Self::begin(operation.tx, near).await;
            operation.end(begun)
        })
    }

    /// The bytes in a range, as far as the value has them: the range is cut at the end of the value.
    ///
    /// # Errors
    /// [`Error::ReadTooLong`] for more than 1 GiB: read it in parts, or by [`ByteValue::read_into`].
    pub fn read<M: Mode>(
        &self,
        tx: &mut Tx<M>,
        range: impl RangeBounds<u64>,
    ) -> M::Out<impl Future<Output = Result<Vec<u8>>>> {
        let (value, range) = (*self, bounds(&range));
        M::run(async move {
            let head = value.load(tx).await?;
            let range = within(&head, range);
            let bytes = range.end - range.start;
            if bytes > BYTES_PER_READ_MAX {
                return Err(Error::ReadTooLong(bytes));
            }
            let mut buffer = vec![0; bytes as usize];
            read_zeroed(tx, &head, range.start, &mut buffer).await?;
            Ok(buffer)
        })
    }

    /// Fills a buffer with the bytes from `offset` on, and returns how many there are. It is less than the buffer's
    /// length where the value ends; the rest of the buffer is left as it is.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let image = db.transact(|tx| tx.bytes("image"))?;
    /// db.transact(|tx| image.write(tx, 0, b"pixels"))?;
    /// let mut buffer = [0; 4];
    /// assert_eq!(db.transact(|tx| image.read_into(tx, 3, &mut buffer))?, 3);
    /// assert_eq!(&buffer, b"els\0");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn read_into<M: Mode>(
        &self,
        tx: &mut Tx<M>,
        offset: u64,
        buffer: &mut [u8],
    ) -> M::Out<impl Future<Output = Result<usize>>> {
        let value = *self;
        M::run(async move {
            let head = value.load(tx).await?;
            let range = within(&head, offset..offset.saturating_add(buffer.len() as u64));
            let buffer = &mut buffer[..(range.end - range.start) as usize];
            buffer.fill(0);
            read_zeroed(tx, &head, range.start, buffer).await?;
            Ok(buffer.len())
        })
    }

    /// Writes bytes from `offset` on. A value that is shorter grows; bytes that were never written are zero. A write of
    /// the bytes that are there already is a read.
    ///
    /// # Errors
    /// [`Error::ByteValueTooLong`] if it would end beyond 512 GiB, [`Error::TransactionTooLarge`] for more than some 60
    /// MiB: write it in several transactions.
    pub fn write<M: Mode>(&self, tx: &mut Tx<M>, offset: u64, data: &[u8]) -> M::Out<impl Future<Output = Result<()>>> {
        let value = *self;
        M::run(async move {
            let operation = Operation::begin(tx);
            let written = value.put(operation.tx, offset, data).await;
            operation.end(written)
        })
    }

    /// How many bytes the value has.
    pub fn len<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<u64>>> {
        let value = *self;
        M::run(async move { Ok(value.load(tx).await?.len) })
    }

    /// Whether the value has no bytes.
    pub fn is_empty<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<bool>>> {
        let value = *self;
        M::run(async move { Ok(value.load(tx).await?.len == 0) })
    }

    /// Makes the value this long. Bytes that are added are zero and take no room. Bytes beyond the new end are gone:
    /// they are zero if the value grows again.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let image = db.transact(|tx| tx.bytes("image"))?;
    /// db.transact(|tx| {
    ///     image.write(tx, 0, b"pixels")?;
    ///     image.set_len(tx, 3)?;
    ///     image.set_len(tx, 5)?;
    ///     assert_eq!(image.read(tx, ..)?, b"pix\0\0");
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ByteValueTooLong`] beyond 512 GiB, [`Error::TransactionTooLarge`] if it takes more than some 200 MiB
    /// away: shorten it in several transactions.
    pub fn set_len<M: Mode>(&self, tx: &mut Tx<M>, len: u64) -> M::Out<impl Future<Output = Result<()>>> {
        let value = *self;
        M::run(async move {
            let operation = Operation::begin(tx);
            let set = value.resize(operation.tx, len).await;
            operation.end(set)
        })
    }
}

/// The operations as futures, for the layers that are built on them.
impl ByteValue {
    pub(crate) async fn begin<M: Mode>(tx: &mut Tx<M>, near: Option<ObjectId>) -> Result<Self> {
        let space = near.map_or(tx.space, |near| near.page.space);
        let stamp = tx.stamps.draw();
        let root = tx.create_slot(space, near, root_object(Head::EMPTY, stamp)).await?;
        Ok(Self { root: Ref::new(root, stamp) })
    }

    /// Reads the root.
    pub(crate) async fn load<M: Mode>(self, tx: &Tx<M>) -> Result<Head> {
        let object = self.id();
        let read = |bytes: &[u8]| -> Result<Option<Head>> {
            let Some(slot) = Slot::parse(self.root.into(), bytes)? else { return Ok(None) };
            let head = match slot.wanted(object, Wanted::BYTE_VALUE)? {
                Value::Inline(content) => Head::parse(content),
                Value::Chain(_) => None,
            };
            let head = head.filter(|head| head.top.is_none_or(|top| top.page.space == object.page.space));
            head.map(Some).ok_or_else(|| Error::damaged(object, "its content is not that of the root of a byte value"))
        };
        tx.read_slot(object, read).await?.transpose()?.flatten().ok_or(Error::NoSuchObject(object))
    }

    async fn store<M: Mode>(self, tx: &mut Tx<M>, head: Head) -> Result<()> {
        match tx.write(self.id(), &root_object(head, self.root.stamp())).await? {
            Fits::Yes => Ok(()),
            Fits::No => Err(Error::Refused(Refusal::PageFull(self.id().page))),
        }
    }

    async fn put<M: Mode>(self, tx: &mut Tx<M>, offset: u64, data: &[u8]) -> Result<()> {
        let before = self.load(tx).await?;
        if data.is_empty() {
            return Ok(());
        }
        let end = offset.saturating_add(data.len() as u64);
        let mut head = before;
        lengthen(tx, &mut head, end).await?;
        let mut left = data;
        // Where the pages are that come before, or what leads to them.
        let mut near = head.top.map_or(self.id().page, |top| top.page);
        for pages in windows(tx, offset..end) {
            let found = byte_table::find(tx, &head, pages.clone()).await?;
            slots::ask_for(tx, found.iter().copied().flatten());
            for (number, page) in pages.zip(found) {
                let piece = piece_of(number, &(offset..end));
                let bytes;
                (bytes, left) = left.split_at(piece.end - piece.start);
                let page = match page {
                    Some(page) => put_piece(tx, page, piece, bytes).await.map(|()| Some(page))?,
                    None => add_page(tx, &mut head, near, number, piece, bytes).await?,
                };
                near = page.unwrap_or(near);
            }
        }
        if head == before { Ok(()) } else { self.store(tx, head).await }
    }

    async fn resize<M: Mode>(self, tx: &mut Tx<M>, len: u64) -> Result<()> {
        let before = self.load(tx).await?;
        let mut head = before;
        lengthen(tx, &mut head, len).await?;
        if len < before.len {
            let keep = len.div_ceil(PAGE_BYTES);
            byte_table::cut(tx, &mut head, keep).await?;
            if !len.is_multiple_of(PAGE_BYTES)
                && let [Some(page)] = byte_table::find(tx, &head, keep - 1..keep).await?[..]
            {
                let piece = Piece { start: (len % PAGE_BYTES) as usize, end: PAGE_BYTES as usize };
                put_piece(tx, page, piece, &vec![0; piece.end - piece.start]).await?;
            }
            head.len = len;
        }
        if head == before { Ok(()) } else { self.store(tx, head).await }
    }
}

/// The root's object.
fn root_object(head: Head, stamp: u32) -> Bytes {
    let mut bytes = value::inline(Kind::ByteValue, 32);
    value::set_stamp(&mut bytes, stamp);
    head.push_bytes(&mut bytes);
    bytes.into()
}

/// Makes a value that is shorter this long.
async fn lengthen<M: Mode>(tx: &mut Tx<M>, head: &mut Head, len: u64) -> Result<()> {
    if len > BYTE_VALUE_BYTES_MAX {
        return Err(Error::ByteValueTooLong(len));
    }
    head.len = head.len.max(len);
    byte_table::grow(tx, head).await
}

/// Writes a part of a page, line by line. Lines that do not change are read and not written.
async fn put_piece<M: Mode>(tx: &mut Tx<M>, page: PageId, piece: Piece, bytes: &[u8]) -> Result<()> {
    let run = Run { page, slots: piece.lines() };
    slots::change(tx, &run, |slot, stored| {
        let before = line_in(stored)?;
        let mut line = before;
        let (in_line, in_piece) = piece.of_line(slot);
        line[in_line].copy_from_slice(&bytes[in_piece]);
        Ok(if line == before { Change::Keep } else { Change::Put(slot_of(&line)) })
    })
    .await
}

/// Writes a part of a page that the value does not have yet. A page of zeros is left out. Returns where it is.
async fn add_page<M: Mode>(
    tx: &mut Tx<M>,
    head: &mut Head,
    near: PageId,
    number: u64,
    piece: Piece,
    bytes: &[u8],
) -> Result<Option<PageId>> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    // However its lines change, the page is never empty.
    let page = tx.create_apart(near.space, Some(near), slot_of(&ZEROS)).await?;
    put_piece(tx, page, piece, bytes).await?;
    byte_table::attach(tx, head, number, page).await?;
    Ok(Some(page))
}

/// Reads the bytes from `offset` on, which are all within the value, into a buffer of zeros.
async fn read_zeroed<M: Mode>(tx: &mut Tx<M>, head: &Head, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let range = offset..offset + buffer.len() as u64;
    let mut windows = windows(tx, range.clone());
    let mut ahead = find_and_ask(tx, head, windows.next()).await?;
    let mut left = buffer;
    while let Some((pages, found)) = ahead {
        ahead = find_and_ask(tx, head, windows.next()).await?;
        let bytes = (pages.end * PAGE_BYTES).min(range.end) - (pages.start * PAGE_BYTES).max(range.start);
        let here;
        (here, left) = left.split_at_mut(bytes as usize);
        read_pages(tx, pages, &found, &range, here).await?;
    }
    Ok(())
}

/// Some neighbouring pages of a value, and where they are.
type Found = (Range<u64>, Vec<Option<PageId>>);

/// Finds the pages of a window, and asks for them.
async fn find_and_ask<M: Mode>(tx: &Tx<M>, head: &Head, pages: Option<Range<u64>>) -> Result<Option<Found>> {
    let Some(pages) = pages else { return Ok(None) };
    let found = byte_table::find(tx, head, pages.clone()).await?;
    slots::ask_for(tx, found.iter().copied().flatten());
    Ok(Some((pages, found)))
}

/// Reads the bytes of some pages that are in `range`.
async fn read_pages<M: Mode>(
    tx: &Tx<M>,
    pages: Range<u64>,
    found: &[Option<PageId>],
    range: &Range<u64>,
    buffer: &mut [u8],
) -> Result<()> {
    let (mut runs, mut places, mut at) = (Vec::new(), Vec::new(), 0);
    for (number, page) in pages.zip(found) {
        let piece = piece_of(number, range);
        if let Some(page) = *page {
            runs.push(Run { page, slots: piece.lines() });
            places.push((piece, at));
        }
        at += piece.end - piece.start;
    }
    slots::read(tx, &runs, |run, slot, stored| {
        let Some(stored) = stored else { return Ok(()) };
        let line = line_in(Some(stored))?;
        let (piece, at) = places[run];
        let (in_line, in_piece) = piece.of_line(slot);
        buffer[at..][in_piece].copy_from_slice(&line[in_line]);
        Ok(())
    })
    .await
}

/// The part of a page that is in a range of the value.
fn piece_of(number: u64, range: &Range<u64>) -> Piece {
    let at = number * PAGE_BYTES;
    let start = range.start.max(at) - at;
    let end = range.end.min(at + PAGE_BYTES) - at;
    Piece { start: start as usize, end: end as usize }
}

/// The pages that a range is in, as many at a time as are asked for together.
fn windows<M: Mode>(tx: &Tx<M>, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<M> {
    let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
    let end = if range.is_empty() { pages.start } else { pages.end };
    let window = if end - pages.start > 1 { slots::window(tx, IMAGE_BYTES) } else { 1 };
    (pages.start..end).step_by(window).map(move |first| first..end.min(first + window as u64))
}

fn bounds(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// The part of a range that the value has.
fn within(head: &Head, range: Range<u64>) -> Range<u64> {
    let start = range.start.min(head.len);
    start..range.end.clamp(start, head.len)
}

impl fmt::Debug for ByteValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteValue({})", self.root)
    }
}

impl Near for ByteValue {
    fn near(self) -> Option<ObjectId> {
        Some(self.root.id())
    }
}

impl Serialize for ByteValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.root.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ref::deserialize(deserializer).map(Self::new)
    }
}
