//! A device in memory, for tests and for what may be lost: pages of 32 KiB, of which only those exist that were written.

use crate::device::{Answer, Device, Errno, Extent, Geometry, Operation, Permit, Piece, Replies, Request};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The bytes of a page.
const PAGE: u64 = 32 * 1024;

/// A device in memory.
#[derive(Debug)]
pub struct MemoryDevice {
    size: u64,
    pages: RwLock<Pages>,
}

/// The pages that exist, by number.
#[derive(Debug, Default)]
struct Pages(BTreeMap<u64, Box<[u8]>>);

impl MemoryDevice {
    /// A device of so many bytes, all of them zero.
    pub fn new(size: u64) -> Self {
        Self { size, pages: RwLock::default() }
    }

    /// Bytes of memory that its pages take.
    pub fn allocated(&self) -> u64 {
        self.read().0.len() as u64 * PAGE
    }

    fn read(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, operation: Operation, replies: &dyn Replies) -> Result<Answer, Errno> {
        let change = |how: &dyn Fn(&mut Pages)| self.change(replies, how);
        match operation {
            Operation::Read { offset, len } => return Ok(Answer::Read(self.read().pieces(offset, len))),
            Operation::Extents { offset, len, .. } => {
                let end = (offset + len).next_multiple_of(PAGE).min(self.size);
                return Ok(Answer::Extents(self.read().extents(offset, end - offset)));
            }
            Operation::Write { offset, data, .. } => change(&|pages| pages.write(offset, &data))?,
            Operation::Trim { offset, len, .. } => change(&|pages| pages.zero(offset, len, true))?,
            Operation::Zero { offset, len, may_trim, .. } => change(&|pages| pages.zero(offset, len, may_trim))?,
            Operation::Flush | Operation::Cache { .. } => {}
        }
        Ok(Answer::Done)
    }

    fn change(&self, replies: &dyn Replies, how: &dyn Fn(&mut Pages)) -> Result<(), Errno> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let _permit = Permit::take(replies).ok_or(Errno::Io)?;
        how(&mut pages);
        Ok(())
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.size)
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        for Request { ticket, operation } in batch.drain(..) {
            let outcome = self.answer(operation, &**replies);
            replies.done(ticket, outcome);
        }
    }
}

/// The parts of a range by page: the page's number, where in it, and how much.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut at, end) = (offset, offset + len);
    std::iter::from_fn(move || {
        let (page, from) = (at / PAGE, at % PAGE);
        let len = (PAGE - from).min(end - at);
        at += len;
        (len > 0).then_some((page, from as usize, len as usize))
    })
}

impl Pages {
    fn pieces(&self, offset: u64, len: u32) -> SmallVec<[Piece; 1]> {
        let mut pieces = SmallVec::new();
        let mut data = Vec::new();
        for (page, from, len) in parts(offset, len.into()) {
            match (self.0.get(&page), pieces.last_mut()) {
                (Some(page), _) => data.extend_from_slice(&page[from..from + len]),
                (None, Some(Piece::Zeros(zeros))) if data.is_empty() => *zeros += len as u32,
                (None, _) => {
                    if !data.is_empty() {
                        pieces.push(Piece::Data(Bytes::from(std::mem::take(&mut data))));
                    }
                    pieces.push(Piece::Zeros(len as u32));
                }
            }
        }
        if !data.is_empty() {
            pieces.push(Piece::Data(data.into()));
        }
        pieces
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let kind = |(page, from, len): (u64, usize, usize)| match self.0.get(&page) {
            None => Extent::hole(len as u64),
            Some(page) => {
                let is_zero = page[from..from + len].iter().all(|byte| *byte == 0);
                Extent { is_zero, ..Extent::data(len as u64) }
            }
        };
        parts(offset, len).map(kind).collect()
    }

    fn write(&mut self, offset: u64, mut data: &[u8]) {
        for (page, from, len) in parts(offset, data.len() as u64) {
            self.page(page)[from..from + len].copy_from_slice(&data[..len]);
            data = &data[len..];
        }
    }

    /// Writes zeros. A page of nothing else goes, unless it is to stay.
    fn zero(&mut self, offset: u64, len: u64, may_trim: bool) {
        for (page, from, len) in parts(offset, len) {
            if !may_trim {
                self.page(page)[from..from + len].fill(0);
            } else if let Some(bytes) = self.0.get_mut(&page) {
                bytes[from..from + len].fill(0);
                if bytes.iter().all(|byte| *byte == 0) {
                    self.0.remove(&page);
                }
            }
        }
    }

    fn page(&mut self, number: u64) -> &mut [u8] {
        self.0.entry(number).or_insert_with(|| vec![0; PAGE as usize].into_boxed_slice())
    }
}
