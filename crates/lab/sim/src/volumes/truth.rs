//! The promises to applications, their reads, and the invariants of both.

use super::blocks::{self, BLOCKS, Image};
use crate::violation::{Check, ensure};
use machines::{Ack, Epoch, Record, RequestId, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A write, as its application made it.
#[derive(Clone, Debug)]
struct Written {
    number: u64,
    blocks: Range<usize>,
    is_answered: bool,
    is_promised: bool,
    /// It was lost in a way that nothing notices.
    is_excused: bool,
}

/// A request that an application waits for.
#[derive(Clone, Debug)]
enum Asked {
    Write {
        stamp: Stamp,
        is_fua: bool,
    },
    /// A flush, and the writes that were answered before it.
    Flush(Vec<Stamp>),
    /// A resize to fewer blocks: what was in the others before.
    Shrink {
        tail: Range<usize>,
        before: Stamp,
    },
    Grow,
}

#[derive(Debug)]
pub(crate) struct Truth {
    ack: Ack,
    writes: BTreeMap<Stamp, Written>,
    requests: BTreeMap<RequestId, Asked>,
    /// Of each block: the newest write that is promised, the newest that the owner of this epoch has shown, and the one
    /// from which on a resize has taken everything away.
    promised: Image,
    shown: Image,
    cut: Image,
    /// The blocks that the epoch began with.
    epoch: Epoch,
    begun: Image,
    /// Home was restored since: what a copy has of the time between may come home again.
    is_older: bool,
    /// Lists of earlier epochs than this were given up.
    lost_before: Epoch,
    pub(crate) answers: u64,
}

impl Truth {
    pub(crate) fn new(ack: Ack) -> Self {
        let none = [Stamp::ZERO; BLOCKS];
        Self {
            ack,
            writes: BTreeMap::new(),
            requests: BTreeMap::new(),
            promised: none,
            shown: none,
            cut: none,
            epoch: Epoch(0),
            begun: none,
            is_older: false,
            lost_before: Epoch(0),
            answers: 0,
        }
    }

    /// The number of the next write.
    pub(crate) fn next_number(&self) -> u64 {
        self.writes.len() as u64 + 1
    }

    pub(crate) fn wrote(&mut self, request: RequestId, record: &Record, number: u64, is_fua: bool) {
        self.put(record, number);
        self.requests.insert(request, Asked::Write { stamp: record.stamp, is_fua });
    }

    /// A write of the owner's own.
    pub(crate) fn put(&mut self, record: &Record, number: u64) {
        let blocks = blocks::blocks(record.extent);
        self.writes.insert(
            record.stamp,
            Written { number, blocks, is_answered: false, is_promised: false, is_excused: false },
        );
    }

    /// A flush of the owner under this epoch: what was written under earlier ones is home, or lost with its host.
    pub(crate) fn flushes(&mut self, request: RequestId, epoch: Epoch) {
        let is_meant = |(stamp, it): &(&Stamp, &Written)| stamp.epoch == epoch && it.is_answered;
        let answered = self.writes.iter().filter(is_meant).map(|(&stamp, _)| stamp).collect();
        self.requests.insert(request, Asked::Flush(answered));
    }

    pub(crate) fn resizes(&mut self, request: RequestId, tail: Option<Range<usize>>, before: Stamp) {
        self.requests.insert(request, tail.map_or(Asked::Grow, |tail| Asked::Shrink { tail, before }));
    }

    /// The host of these requests is dead: no request waits for them any more.
    pub(crate) fn forget(&mut self, requests: &BTreeSet<RequestId>) {
        self.requests.retain(|request, _| !requests.contains(request));
    }

    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// A request is answered: what follows from it is promised.
    pub(crate) fn answered(&mut self, request: RequestId, is_done: bool) {
        let Some(asked) = self.requests.remove(&request) else { return };
        if !is_done {
            return;
        }
        self.answers += 1;
        match asked {
            Asked::Write { stamp, is_fua } => {
                self.writes.get_mut(&stamp).expect("it was put down").is_answered = true;
                if is_fua || self.ack == Ack::Write {
                    self.promise(stamp);
                }
            }
            Asked::Flush(stamps) => stamps.into_iter().for_each(|stamp| self.promise(stamp)),
            Asked::Shrink { tail, before } => tail.for_each(|block| self.cut[block] = before.max(self.cut[block])),
            Asked::Grow => {}
        }
    }

    fn promise(&mut self, stamp: Stamp) {
        // The host of an ended epoch may answer late what it has copies of, when those are lost or were given up.
        if stamp.epoch < self.lost_before {
            return;
        }
        let Some(written) = self.writes.get_mut(&stamp).filter(|it| !it.is_excused) else { return };
        written.is_promised = true;
        for block in written.blocks.clone() {
            self.promised[block] = self.promised[block].max(stamp);
        }
    }

    /// These writes may be lost.
    pub(crate) fn excuse(&mut self, stamps: impl Iterator<Item = Stamp>) {
        for stamp in stamps {
            let Some(written) = self.writes.get_mut(&stamp) else { continue };
            (written.is_promised, written.is_excused) = (false, true);
            for block in written.blocks.clone() {
                if self.promised[block] == stamp {
                    let others = self.writes.iter().filter(|(_, it)| it.is_promised && it.blocks.contains(&block));
                    self.promised[block] = others.map(|(&stamp, _)| stamp).max().unwrap_or(Stamp::ZERO);
                }
            }
        }
    }

    /// An owner shows a block to its application.
    pub(crate) fn read(&mut self, host: usize, epoch: Epoch, block: usize, stamp: Stamp) -> Check {
        let promised = self.promised[block];
        ensure(stamp >= promised, "promise", || {
            format!("h{host} shows {stamp:?} of block {block} in {epoch:?}, where {promised:?} was acknowledged")
        })?;
        let cut = self.cut[block];
        ensure(stamp > cut || stamp == Stamp::ZERO || cut == Stamp::ZERO, "resize", || {
            format!("h{host} shows {stamp:?} of block {block}, which a resize has cut off behind {cut:?}")
        })?;
        if epoch < self.epoch {
            return Ok(());
        }
        let shown = self.shown[block];
        ensure(stamp >= shown, "never back", || format!("h{host} shows {stamp:?} of block {block} after {shown:?}"))?;
        self.shown[block] = stamp;
        self.no_return(block, stamp)
    }

    /// Nothing comes back that the epoch did not begin with, unless home lacks it.
    fn no_return(&self, block: usize, stamp: Stamp) -> Check {
        let begun = self.begun[block];
        let is_mended = self.is_older && stamp > begun;
        ensure(stamp.epoch >= self.epoch || stamp == begun || is_mended, "no return", || {
            format!("block {block} has {stamp:?} again, where {:?} began with {begun:?}", self.epoch)
        })
    }

    /// Home is what a disk could be after a crash: it has something of a flush epoch only if it has everything that was
    /// promised of those before.
    pub(crate) fn home(&self, image: &Image) -> Check {
        for (block, &stamp) in image.iter().enumerate() {
            self.no_return(block, stamp)?;
        }
        let place = |stamp: &Stamp| (stamp.epoch, stamp.flush);
        let newest = image.iter().max_by_key(|stamp| place(stamp)).expect("there are blocks");
        let earlier = self.writes.iter().filter(|(stamp, it)| it.is_promised && place(stamp) < place(newest));
        for (stamp, written) in earlier {
            for block in written.blocks.clone() {
                ensure(image[block] >= *stamp, "order at home", || {
                    format!("home has {newest:?}, and in block {block} {:?} instead of {stamp:?}", image[block])
                })?;
            }
        }
        Ok(())
    }

    /// Home is as it was before: nothing comes back that is older still.
    pub(crate) fn restored(&mut self, image: Image) {
        (self.begun, self.is_older) = (image, true);
    }

    /// A volume has an owner under a new epoch, and this is what is home: an older state, if home was restored before
    /// that was learned of. If lists that are missing were given up, what only they had is lost.
    pub(crate) fn begin(&mut self, epoch: Epoch, image: Image, has_lost: bool, is_older: bool) -> Check {
        if has_lost {
            self.lost_before = epoch;
            for written in self.writes.values_mut() {
                let is_lost = |block: usize| self.promised[block] > image[block];
                written.is_promised &= !written.blocks.clone().any(is_lost);
            }
            for (promised, stamp) in self.promised.iter_mut().zip(image) {
                *promised = stamp.min(*promised);
            }
            // A resize is an older state's, too.
            self.cut = [Stamp::ZERO; BLOCKS];
        }
        for (block, (stamp, promised)) in image.iter().zip(&self.promised).enumerate() {
            ensure(stamp >= promised, "promise", || {
                format!("{epoch:?} begins with {stamp:?} in block {block}, where {promised:?} was acknowledged")
            })?;
        }
        self.home(&image)?;
        (self.epoch, self.begun, self.shown, self.is_older) = (epoch, image, image, is_older);
        Ok(())
    }

    /// The contents of a record are those that its write had.
    pub(crate) fn contents(&self, record: &Record) -> Check {
        self.writes.get(&record.stamp).map_or(Ok(()), |written| blocks::check(record, written.number))
    }
}
