//! Readers of content at members that keep a part of it.

use crate::day::{Day, MEMBERS, ONE};
use crate::trees::grow;
use machine::Waiter;
use sim::sites::MemberDisk;
use spread::{FetchedContent, Member, Revision};
use std::collections::BTreeSet;
use std::time::Duration;
use tree::{ChunkHash, Part, mark};
use types::Time;

/// Readers that wait at a time.
const READS: usize = 6;

/// A reader who waits for content of a revision at this run of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    at: usize,
    run: u32,
    revision: Revision,
    hash: ChunkHash,
    reader: Waiter,
    /// Whether the member has said that the revision may be stale.
    is_said: bool,
    began: Time,
}

impl Day {
    /// The chunks of content of a revision.
    fn content_of(&self, revision: Revision) -> Vec<ChunkHash> {
        let (chunks, mut content) = (grow(self.truth.tree(revision.root)).1, BTreeSet::new());
        let marked = mark(&chunks, revision.root, |hash, part| part == Part::Directory || content.insert(*hash));
        assert!(marked.is_ok(), "it was grown");
        content.into_iter().collect()
    }

    fn is_here(&mut self, at: usize, hash: ChunkHash) -> bool {
        self.world.content(MEMBERS[at], ONE, |disk: &mut MemberDisk| disk.chunks.0.contains_key(&hash))
    }

    /// A member serves a revision: its content can be read there, or from above. A reader reads some of it.
    pub(crate) fn read_some(&mut self, at: usize, revision: Revision, is_said: bool) -> Result<(), String> {
        let clock = self.world.clock(MEMBERS[at]);
        let member = self.world.look::<Member>(MEMBERS[at]).expect("it has served a visitor");
        if !is_said && !member.held_above(clock).any(|number| number == revision.number) {
            return Err(format!("6: member {at} serves {revision:?} as fresh, and its content is not held"));
        }
        if self.reads.len() >= READS || self.draw(2) == 0 {
            return Ok(());
        }
        let content = self.content_of(revision);
        let hash = content[self.draw(content.len())];
        self.read(at, revision, hash, is_said);
        Ok(())
    }

    fn read(&mut self, at: usize, revision: Revision, hash: ChunkHash, is_said: bool) {
        if self.is_here(at, hash) {
            self.world.call(MEMBERS[at], |member: &mut Member, _| member.used(&hash));
            self.seen.reads += 1;
        } else {
            self.want(at, revision, hash, (is_said, false));
        }
    }

    fn want(&mut self, at: usize, revision: Revision, hash: ChunkHash, (is_said, is_missing): (bool, bool)) {
        let reader = self.world.call(MEMBERS[at], |member: &mut Member, _| member.want(hash, is_missing));
        if let Some(reader) = reader.flatten() {
            let (run, began) = (self.runs[at], self.world.now());
            self.reads.push(Read { at, run, revision, hash, reader, is_said, began });
        }
    }

    /// Looks at the content that readers wait for.
    pub(crate) fn look_at_reads(&mut self) -> Result<(), String> {
        for read in std::mem::take(&mut self.reads) {
            let Read { at, run, revision, hash, reader, is_said, began } = read;
            if self.runs[at] != run {
                continue;
            }
            let state = self.world.call(MEMBERS[at], |member: &mut Member, _| member.wanted(&hash));
            let let_go = |member: &mut Member, _: Time| member.let_go(hash, reader);
            match state {
                Some(FetchedContent::Here) => {
                    let (is_here, is_rotten) = (self.is_here(at, hash), self.rotten.contains(&hash));
                    if !is_here && !is_rotten {
                        return Err(format!("6: a reader is told that {hash} is at member {at}, which it is not"));
                    }
                    self.world.call(MEMBERS[at], let_go);
                    if is_here {
                        (self.seen.reads, self.seen.fetched) = (self.seen.reads + 1, self.seen.fetched + 1);
                    } else {
                        self.want(at, revision, hash, (is_said, true));
                    }
                }
                Some(FetchedContent::Gone | FetchedContent::Unkept) => {
                    self.world.call(MEMBERS[at], let_go);
                    self.seen.missing += 1;
                    self.may_be_missing(at, revision, hash)?;
                }
                // Readers do not wait for ever.
                Some(FetchedContent::Later) if !self.is_resting && self.world.now() > began + 20 * self.lease => {
                    self.world.call(MEMBERS[at], let_go);
                }
                Some(FetchedContent::Later) => self.reads.push(read),
                None => {}
            }
        }
        Ok(())
    }

    /// Content is missing only of a revision that is not held, and at a disk that fails.
    fn may_be_missing(&mut self, at: usize, revision: Revision, hash: ChunkHash) -> Result<(), String> {
        let clock = self.world.clock(MEMBERS[at]);
        let Some(member) = self.world.look::<Member>(MEMBERS[at]) else { return Ok(()) };
        let is_held = member.held_above(clock).any(|number| number == revision.number);
        let is_lost = self.truth.find(revision.number).is_none_or(|it| it.is_lost);
        if is_held && !is_lost && !self.may_fail && !self.rotten.contains(&hash) {
            return Err(format!("6: content {hash} of {revision:?} is missing, which member {at} holds"));
        }
        Ok(())
    }

    /// After all faults, all content of a revision can be read.
    pub(crate) fn read_all(&mut self, at: usize, revision: Revision) -> Result<(), String> {
        for hash in self.content_of(revision) {
            self.reads.clear();
            let before = self.seen.reads;
            self.read(at, revision, hash, false);
            let until = self.world.now() + Duration::from_secs(5);
            while self.seen.reads == before && self.world.now() < until {
                self.world.run_for(self.lease / 10);
                self.look_at_reads()?;
            }
            if self.seen.reads == before {
                return Err(format!("10: content {hash} of {revision:?} cannot be read at member {at}"));
            }
        }
        Ok(())
    }
}
