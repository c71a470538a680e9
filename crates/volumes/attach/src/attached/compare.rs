//! The writes that are not written back, compared with the copies of them at the holders, while the volume is used.
//!
//! ```text
//!   owner --List{its epoch, after}--> holder    the copies that it has, part by part
//!         --Fetch{stamp} * ---------> holder    each of them; a holder gives what agrees with its checksum
//! ```
//! These are the questions of a takeover, under the owner's own epoch, so nothing begins and nobody is refused by them;
//! and in a session of their own, so nothing that is on its way to a holder waits for them.
//!
//! 1. A holder is asked that is whole, for what it had counted before: a copy that is on its way is none that is
//!    missing.
//! 2. A copy is missing only if its write is still dirty afterwards: the holder is told to free what is home, and not
//!    before that is dirty no more.
//! 3. One that cannot be read is asked for twice: a holder moves copies in its log.

use super::copies::extent_of;
use super::{Attached, Core};
use crate::extents::BLOCK;
use crate::links::{Asking, News};
use crate::scrub::{ComparedCopies, CopyDifference, CopyMeaning, NotCompared};
use machines::messages::holder::{
    Content, Epoch, Extent, Fetch, FromHolder, Kept, List, Listed, PartitionId, Record, Sequence, Stamp, VolumeId,
};
use machines::{HolderState, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Copies that are asked for at a time: 4 MiB at most, as records of the own log are.
const FETCHED_AT_A_TIME: u64 = 16;

/// The longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How often to look whether anybody still wants the outcome.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Copies of writes, as far as they can be read.
type Held = BTreeMap<Stamp, Option<(Extent, Content)>>;

impl Attached {
    /// Compares dirty data with the copies at the holders, for as long as that takes, or until it is given up. With
    /// `repairs`, a damaged write of the own log is restored from a holder's copy; and everything is written back, so
    /// that no damaged copy is needed.
    pub fn compare_copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> ComparedCopies {
        let mut found = self.core.compare_copies(repairs, is_given_up);
        if repairs && found.differing > 0 {
            self.core.repair_copies(&mut found, is_given_up);
        }
        found
    }
}

impl Core {
    fn compare_copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> ComparedCopies {
        let mut found = ComparedCopies::default();
        let Some(copies) = &self.copies else { return found };
        let (epoch, holders): (_, Vec<_>) = {
            let state = self.state();
            // The registry has those no more that are lost.
            let holders = state.owner.holders().into_iter().filter(|it| it.state != HolderState::Lost);
            (state.owner.epoch(), holders.map(|it| (it, state.sessions.member(it.partition))).collect())
        };
        for (Standing { partition, state, through, .. }, member) in holders {
            let (holder, address) =
                member.map_or_else(|| (format!("{:016x}", partition.0), None), |(n, a)| (n, Some(a)));
            let compared = match (state, address) {
                (HolderState::Whole, Some(address)) => {
                    let asking = Asking::open(address, &copies.runtime);
                    let (core, volume, found) = (self, copies.volume, &mut found);
                    let holder = holder.clone();
                    Comparison { core, volume, epoch, partition, holder, asking, found, repairs, is_given_up }
                        .run(through)
                }
                (state, _) => Err(format!("it is {}", state.name())),
            };
            found.without.extend(compared.err().map(|why| NotCompared { holder, why }));
        }
        found
    }

    /// Writes everything back, after which no copy at a holder is needed, and the log is free of what is damaged there.
    fn repair_copies(&self, found: &mut ComparedCopies, is_given_up: &dyn Fn() -> bool) {
        let brought = self.bring_repairs_home(is_given_up).map_err(|error| error.to_string());
        found.repaired(brought.err().as_deref());
    }

    /// Takes a holder's copy of a write whose record in the log is damaged, if it is one of that write.
    fn mend(&self, sequence: Sequence, extent: Extent, content: &Content) {
        if let Content::Data(bytes) = content
            && self.dirty_extent(sequence) == Some(extent)
        {
            self.state().dirty.mend(self.base + sequence.0, bytes.clone());
        }
    }

    /// The place of a write among all, if it is not written back.
    fn dirty_stamp(&self, sequence: Sequence) -> Option<Stamp> {
        let state = self.state();
        let write = state.dirty.find(self.base + sequence.0)?;
        Some(Stamp { epoch: state.owner.epoch(), sequence, flush: write.flush })
    }

    /// The place that a write writes to, if it is not written back.
    fn dirty_extent(&self, sequence: Sequence) -> Option<Extent> {
        self.state().dirty.find(self.base + sequence.0).map(|write| extent_of(&write.blocks))
    }

    /// The first write that is not written back, or the next one.
    fn dirty_first(&self) -> Sequence {
        Sequence(self.state().dirty.first().saturating_sub(self.base))
    }
}

/// The comparison with one holder.
struct Comparison<'a> {
    core: &'a Core,
    volume: VolumeId,
    epoch: Epoch,
    partition: PartitionId,
    holder: String,
    asking: Asking,
    found: &'a mut ComparedCopies,
    repairs: bool,
    is_given_up: &'a dyn Fn() -> bool,
}

impl Comparison<'_> {
    /// Compares everything through a write that the holder has counted; `Err` has the reason why that has come to no
    /// end.
    fn run(&mut self, through: Sequence) -> Result<(), String> {
        while !matches!(self.hear()?, News::Up) {}
        let mut after = Stamp::begin(self.epoch);
        loop {
            let Listed { copies, is_last, .. } = self.list(after)?;
            let listed: BTreeSet<_> = copies.iter().map(|it| it.stamp).collect();
            let last = listed.last().copied().filter(|last| !is_last && *last > after);
            let end = last.map_or(through, |last| last.sequence.min(through));
            self.compare(after.sequence.next().max(self.core.dirty_first()), end, &listed)?;
            match last {
                Some(last) if last.sequence < through => after = last,
                _ => return Ok(()),
            }
        }
    }

    /// Compares the writes from one through another, of which the holder has listed these.
    fn compare(&mut self, from: Sequence, through: Sequence, listed: &BTreeSet<Stamp>) -> Result<(), String> {
        let mut first = from.0;
        while first <= through.0 {
            let behind = (first + FETCHED_AT_A_TIME).min(through.0 + 1);
            let stamps: Vec<_> = (first..behind).filter_map(|it| self.core.dirty_stamp(Sequence(it))).collect();
            let mut held = self.fetch(&stamps)?;
            let lacking: Vec<_> = held.iter().filter(|(_, it)| it.is_none()).map(|(&stamp, _)| stamp).collect();
            held.extend(self.fetch(&lacking)?);
            for (stamp, held) in held {
                self.judge(stamp, held, listed.contains(&stamp));
            }
            first = behind;
        }
        Ok(())
    }

    fn judge(&mut self, stamp: Stamp, held: Option<(Extent, Content)>, is_listed: bool) {
        let lacks = if is_listed { CopyMeaning::CopyDamaged } else { CopyMeaning::CopyMissing };
        let own = match self.core.find_copy(stamp.sequence) {
            // It is written back in the meantime.
            Ok(None) => return,
            Ok(Some(own)) => own,
            Err(_) => {
                let Some(extent) = self.core.dirty_extent(stamp.sequence) else { return };
                self.add(extent, CopyMeaning::LogDamaged);
                match held {
                    None => self.add(extent, lacks),
                    Some((at, content)) if self.repairs => self.core.mend(stamp.sequence, at, &content),
                    Some(_) => {}
                }
                return;
            }
        };
        self.found.blocks += own.extent.len / BLOCK as u64;
        match held {
            None => self.add(own.extent, lacks),
            Some((extent, content)) => {
                for extent in differing(&own, extent, &content) {
                    self.add(extent, CopyMeaning::CopyDiffers);
                }
            }
        }
    }

    fn add(&mut self, Extent { offset, len }: Extent, meaning: CopyMeaning) {
        let (block, blocks) = (offset / BLOCK as u64, len / BLOCK as u64);
        self.found.add(CopyDifference { block, blocks, holder: self.holder.clone(), meaning });
    }

    /// Some of the copies that the holder has behind this one.
    fn list(&mut self, after: Stamp) -> Result<Listed, String> {
        self.asking.say([List { volume: self.volume, epoch: self.epoch, after }.into()]);
        loop {
            if let News::Heard(FromHolder::Listed(listed)) = self.hear()? {
                if listed.partition != self.partition {
                    return Err(format!("holder {:016x} is there now", listed.partition.0));
                }
                return Ok(listed);
            }
        }
    }

    /// These copies, as far as the holder can read them.
    fn fetch(&mut self, stamps: &[Stamp]) -> Result<Held, String> {
        self.asking.say(stamps.iter().map(|&stamp| Fetch { stamp }.into()));
        let mut held = Held::new();
        while held.len() < stamps.len() {
            if let News::Heard(FromHolder::Kept(Kept { stamp, record })) = self.hear()?
                && stamps.contains(&stamp)
            {
                held.insert(stamp, record);
            }
        }
        Ok(held)
    }

    /// The next word of the holder's.
    fn hear(&mut self) -> Result<News, String> {
        let until = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < until {
            if (self.is_given_up)() || self.core.state().is_closing {
                return Err("the comparison was given up".to_owned());
            }
            match self.asking.hear(until.min(Instant::now() + LOOK_EVERY)) {
                Some(News::Down) => return Err("the session with it was lost".to_owned()),
                Some(News::Heard(FromHolder::Refused(_))) => return Err("a newer epoch has begun".to_owned()),
                Some(news) => return Ok(news),
                None => {}
            }
        }
        Err(format!("it has not answered for {} s", ANSWER_WITHIN.as_secs()))
    }
}

/// The parts of a write that are others in a copy of it: its blocks, if the copy has as many bytes in the same place.
fn differing(own: &Record, extent: Extent, content: &Content) -> Vec<Extent> {
    match (&own.content, content) {
        (Content::Data(own_bytes), Content::Data(bytes)) if extent == own.extent && own_bytes.len() == bytes.len() => {
            let pairs = own_bytes.chunks(BLOCK).zip(bytes.chunks(BLOCK)).enumerate();
            let block = |at: usize| Extent { offset: extent.offset + (at * BLOCK) as u64, len: BLOCK as u64 };
            pairs.filter(|(_, (own, copy))| own != copy).map(|(at, _)| block(at)).collect()
        }
        (own_content, content) if extent == own.extent && own_content == content => Vec::new(),
        _ => vec![own.extent],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn the_blocks_of_a_copy_that_differ_are_named() {
        let extent = Extent { offset: 7 * BLOCK as u64, len: 2 * BLOCK as u64 };
        let data = |marks: [u8; 2]| Content::Data(Bytes::from(marks.map(|mark| vec![mark; BLOCK]).concat()));
        let own = Record { stamp: Stamp::ZERO, extent, content: data([1, 2]) };
        assert_eq!(differing(&own, extent, &data([1, 2])), []);
        let second = Extent { offset: 8 * BLOCK as u64, len: BLOCK as u64 };
        assert_eq!(differing(&own, extent, &data([1, 3])), [second]);
        assert_eq!(differing(&own, extent, &Content::Zero), [extent]);
        assert_eq!(differing(&own, second, &data([1, 2])), [extent]);
    }
}
