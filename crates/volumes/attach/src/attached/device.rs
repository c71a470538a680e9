//! The volume as a block server serves it.
//!
//! Of a batch the writes are appended and what is in memory is read; then the reads that wait for a disk are done; and
//! if there are none such, this thread leads the flush that the others wait for. Else the keeper does, so that no read
//! is behind a flush and no flush behind a read.

use super::read::{AtHome, Found, blocks_of};
use super::requests::Own;
use super::write::{Change, is_inside};
use super::{Attached, Core, State};
use crate::cache::Kept;
use crate::extents::BLOCK;
use crate::far::FarError;
use crate::home::HomeError;
use machines::messages::holder::Content;
use nbd::{Answer, Device, Errno, Extent, Geometry, Operation, Replies, Request, Ticket};
use std::fmt::Display;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// The most extents of an answer.
const EXTENTS_MAX: usize = 4096;

/// A read that waits for a disk.
struct Later {
    ticket: Ticket,
    offset: u64,
    len: u32,
    found: Found,
    /// Some of it is under way already.
    is_under_way: bool,
}

/// The rest of a batch, when its requests were looked at.
#[derive(Default)]
struct Left {
    later: Vec<Later>,
    /// To be read ahead.
    ahead: Vec<Found>,
    /// Somebody waits for the log.
    waits: bool,
}

impl Device for Attached {
    fn geometry(&self) -> Geometry {
        Geometry { block_preferred: BLOCK as u32, ..Geometry::new(self.core.size.load(Relaxed)) }
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        self.core.submit(batch, replies);
    }

    fn hung_up(&self, replies: &Arc<dyn Replies>) {
        self.core.give_up(replies);
    }
}

impl Core {
    pub(super) fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        let (mut left, own) = (Left::default(), Own::new(replies));
        for Request { ticket, operation } in batch.drain(..) {
            left.waits |= self.begin(ticket, operation, &own, &mut left);
        }
        let Left { mut later, ahead, waits } = left;
        // All at once: a home elsewhere answers them together. Blocks that no request waits for yet come last.
        for read in later.iter_mut().filter(|read| !read.is_under_way) {
            read.found.ask(&self.home);
        }
        self.ask_ahead(ahead);
        if waits {
            self.send_copies();
        } else if later.is_empty() {
            // Copies that no request waits for leave with the keeper's next flush, or when they are much.
            return;
        }
        own.stalls();
        if waits && !later.is_empty() {
            self.state().wants_flush = true;
            self.keep.notify_one();
        }
        let is_alone = later.is_empty();
        for Later { ticket, offset, len, found, is_under_way } in later {
            let is_gone = || own.is_gone();
            let (outcome, at_home) = if is_gone() {
                // The place that it has at home is for those who are there.
                drop(found);
                (Err(Errno::Io), None)
            } else {
                let found = if is_under_way { self.await_ahead(found.blocks().clone(), &is_gone) } else { found };
                split(self.read(offset, len, found, &is_gone))
            };
            replies.done(ticket, outcome);
            replies.send();
            if let Some(read) = at_home {
                self.keep_clean(&read);
            }
        }
        if is_alone {
            self.lead(Some(&own));
        }
    }

    /// Answers the requests of a client that has hung up, which wait for copies or for home. Their writes stay.
    fn give_up(&self, replies: &Arc<dyn Replies>) {
        let mut state = self.state();
        let State { owner, requests, .. } = &mut *state;
        owner.give_up(|request| requests.is_of(request, replies));
        self.carry_out(state, None);
    }

    /// Does what is quick of a request. Returns whether its answer waits for the log.
    fn begin(&self, ticket: Ticket, operation: Operation, own: &Own<'_>, left: &mut Left) -> bool {
        let replies = own.replies;
        let size = self.size.load(Relaxed);
        let refuse = |ticket, errno| {
            replies.done(ticket, Err(errno));
            false
        };
        let change = match operation {
            Operation::Read { offset, len } => {
                if let Err(errno) = is_inside(size, offset, len.into()) {
                    return refuse(ticket, errno);
                }
                let mut state = match self.regain_lease(self.state(), own) {
                    Ok(state) => state,
                    Err(errno) => return refuse(ticket, errno),
                };
                let mut found = state.find(blocks_of(offset, len.into()));
                let is_under_way = state.is_under_way(&found);
                if !is_under_way {
                    state.counts.read(found.reads());
                }
                left.ahead.append(&mut state.read_ahead(found.blocks(), blocks_of(0, size).end));
                drop(state);
                match self.read_at_hand(offset, len, &mut found) {
                    Some(answer) => replies.done(ticket, Ok(answer)),
                    None => left.later.push(Later { ticket, offset, len, found, is_under_way }),
                }
                return false;
            }
            Operation::Flush => {
                let mut state = self.state();
                let Some(permit) = own.permit() else {
                    drop(state);
                    return refuse(ticket, Errno::Io);
                };
                let request = state.requests.add(ticket, replies, 1);
                let now = self.now();
                state.owner.flush(now, request);
                drop(permit);
                self.carry_out(state, Some(own));
                return true;
            }
            Operation::Cache { offset, len } => {
                let is_inside = is_inside(size, offset, len);
                if is_inside.is_ok() {
                    left.ahead.append(&mut self.state().read_ahead_all(blocks_of(offset, len)));
                }
                replies.done(ticket, is_inside.map(|()| Answer::Done));
                return false;
            }
            Operation::Extents { offset, len, one } => {
                own.stalls();
                let extents = is_inside(size, offset, len).and_then(|()| self.extents(offset, len, one, own));
                replies.done(ticket, extents.map(Answer::Extents));
                return false;
            }
            Operation::Write { offset, data, fua } => {
                Change { offset, len: data.len() as u64, content: Content::Data(data), is_fua: fua }
            }
            Operation::Trim { offset, len, fua } => Change { offset, len, content: Content::Trim, is_fua: fua },
            Operation::Zero { offset, len, may_trim, fua, .. } => {
                let content = if may_trim && is_aligned(offset, len) { Content::Trim } else { Content::Zero };
                Change { offset, len, content, is_fua: fua }
            }
        };
        match is_inside(size, change.offset, change.len) {
            Ok(()) => self.change(ticket, change, own),
            Err(errno) => refuse(ticket, errno),
        }
    }

    /// The extents of a range: of what is dirty, and of home where nothing is. The volume is this host's when they are
    /// looked for, and still when home has answered, which may have taken long.
    fn extents(&self, offset: u64, len: u64, one: bool, own: &Own<'_>) -> Result<Vec<Extent>, Errno> {
        let pieces: Vec<_> = {
            let state = self.regain_lease(self.state(), own)?;
            let is_hole = |position| match state.dirty.write(position).kept {
                Kept::Zeros { is_hole } => (is_hole, true),
                Kept::Memory(_) | Kept::Log => (false, false),
            };
            let pieces = state.dirty.pieces(blocks_of(offset, len)).take(if one { 2 } else { EXTENTS_MAX });
            pieces.map(|(blocks, newest)| (blocks, newest.map(is_hole))).collect()
        };
        let mut extents = Extents { found: Vec::new(), at: offset, end: offset + len };
        for (blocks, kind) in pieces {
            let (mut at, end) = (u64::from(blocks.start) * BLOCK as u64, u64::from(blocks.end) * BLOCK as u64);
            if let Some((is_hole, is_zero)) = kind {
                extents.add(end, is_hole, is_zero);
                continue;
            }
            while at < end && !extents.is_enough(one) {
                let run = self.run_at_home(at, end, &|| own.is_gone());
                let (until, is_hole) = run.map_err(|error| self.note_unless_unwanted(&error))?;
                at = until;
                extents.add(at, is_hole, is_hole);
            }
        }
        // It may have taken longer than the lease.
        drop(self.regain_lease(self.state(), own)?);
        Ok(extents.found)
    }

    /// Waits while another host may have the volume, as the lease is over. The registry is asked all the time: a line
    /// that is cut for a moment is to fail no request.
    pub(super) fn regain_lease<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        own: &Own<'_>,
    ) -> Result<MutexGuard<'a, State>, Errno> {
        if state.owner.may_read(self.now()) {
            return Ok(state);
        }
        let waits = |state: &mut State| {
            !state.owner.may_read(self.now()) && state.failed.is_none() && !state.is_closing && !state.is_detaching
        };
        let patience = self.copies.as_ref().map_or(Duration::ZERO, |copies| copies.lease_patience);
        let (until, state) = (Instant::now() + patience, self.begin_wait(state, own));
        let state = self.await_unless_gone(state, own, Some(until), waits);
        if state.owner.may_read(self.now()) {
            return Ok(state);
        }
        Err(if state.is_detaching { Errno::Shutdown } else { Errno::Io })
    }

    /// Like [`Core::note_home`], unless the error is only that a client has hung up.
    pub(super) fn note_unless_unwanted(&self, error: &HomeError) -> Errno {
        match error {
            HomeError::Far(FarError::GivenUp) => Errno::Io,
            error => self.note_home(error),
        }
    }

    /// Takes down an error for the status.
    /// An error of home, too: one that went back ends all.
    pub(super) fn note_home(&self, error: &HomeError) -> Errno {
        if error.went_back() {
            self.home_went_back(error);
        }
        self.note(error)
    }

    pub(super) fn note(&self, error: &impl Display) -> Errno {
        self.state().read_error = Some((error.to_string(), self.now()));
        Errno::Io
    }
}

/// Extents one behind the other.
struct Extents {
    found: Vec<Extent>,
    at: u64,
    end: u64,
}

impl Extents {
    /// Everything up to a byte is of this kind.
    fn add(&mut self, until: u64, is_hole: bool, is_zero: bool) {
        let len = until.min(self.end).saturating_sub(self.at);
        self.at += len;
        match self.found.last_mut() {
            Some(last) if (last.is_hole, last.is_zero) == (is_hole, is_zero) => last.len += len,
            _ if len > 0 => self.found.push(Extent { len, is_hole, is_zero }),
            _ => {}
        }
    }

    /// Whether no more are wanted: the last one may still grow.
    fn is_enough(&self, one: bool) -> bool {
        self.found.len() > if one { 1 } else { EXTENTS_MAX }
    }
}

fn split(read: Result<(Answer, Option<AtHome>), Errno>) -> (Result<Answer, Errno>, Option<AtHome>) {
    match read {
        Ok((answer, at_home)) => (Ok(answer), at_home),
        Err(errno) => (Err(errno), None),
    }
}

fn is_aligned(offset: u64, len: u64) -> bool {
    offset.is_multiple_of(BLOCK as u64) && len.is_multiple_of(BLOCK as u64)
}
