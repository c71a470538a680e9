//! The chunks of a newer tree that are missing where an older tree is whole, and perhaps a part of the newer one is.
//!
//! Missing nodes hide what is below them, so a descent has rounds: [`descend`] returns the chunks to fetch, and the
//! steps that continue once they are there. Every round begins with the nodes nearest to the root and looks at each
//! node once, so the work is bounded even if a tree names one subtree in a million places.

use crate::entry::{Content, Entry, Kind};
use crate::hash::ChunkHash;
use crate::limits::DEPTH_MAX;
use crate::node::{Node, read_list};
use crate::older::Older;
use crate::read::{named, node};
use crate::source::{Counted, Malformed, ReadError, Source};
use alloc::collections::{BTreeMap, BTreeSet, btree_map};
use alloc::vec::Vec;
use core::{iter, mem};

/// The chunks about which `has` is asked at once. Before each question, nodes are read until they name about
/// as many.
const BATCH_CHUNKS: usize = 4096;

/// The chunks of a tree that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Directories and content.
    Whole,
    /// The nodes of its directories, and no content of files.
    Directories,
}

/// A node of the newer tree that is looked into, and the directory or list of the older tree at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    node: ChunkHash,
    form: Form,
    parts: Parts,
    older: Option<ChunkHash>,
    /// The directories above.
    depth: usize,
}

/// The form that a node must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A node of a directory, of a level that is known below the topmost one.
    Directory(Option<u8>),
    /// A list of the pieces of a large file.
    List,
}

impl Step {
    /// Returns the first step: into the root of a newer tree, beside the root of an older one that is there as a whole.
    pub fn root(newer: ChunkHash, older: Option<ChunkHash>) -> Self {
        Self::root_of(Parts::Whole, newer, older)
    }

    /// Returns the first step into some parts of a newer tree, beside the root of an older one that has these parts.
    pub fn root_of(parts: Parts, newer: ChunkHash, older: Option<ChunkHash>) -> Self {
        Self { node: newer, form: Form::Directory(None), parts, older, depth: 0 }
    }

    /// Returns the node that is looked into.
    pub fn node(&self) -> ChunkHash {
        self.node
    }
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descent {
    /// Chunks that are missing, each once.
    pub lacks: Vec<ChunkHash>,
    /// Chunks that are there and that the older tree does not name at the same place, each once: the newer tree relies
    /// on them. Chunks that an earlier round lacked, and that were fetched since, can be among them.
    pub relies: Vec<ChunkHash>,
    /// Steps whose nodes are among `lacks`, or that were left because of the budget. The next round begins with them.
    pub waits: Vec<Step>,
}

/// Makes a round of a descent, and returns the chunks that it found. The newer tree is there as a whole when a round
/// returns no `waits` and its `lacks` are fetched.
///
/// `has` returns for each chunk whether it is there, and is asked in batches. `source` reads the nodes that are there.
/// A round reads about `budget` nodes, counting those of both trees, and makes one step at least.
///
/// # Errors
/// Errors of `has` and of the source, and malformed nodes.
pub fn descend<S: Source>(
    source: &S,
    has: &mut impl FnMut(&[ChunkHash]) -> Result<Vec<bool>, S::Error>,
    steps: Vec<Step>,
    budget: usize,
) -> Result<Descent, ReadError<S::Error>> {
    let counted = Counted::new(source);
    let mut round = Round::new(&counted);
    for step in steps {
        round.add(step);
    }
    loop {
        if round.queue.is_empty() || round.named.len() >= BATCH_CHUNKS {
            round.sort(has)?;
        }
        let left = budget.max(1).saturating_sub(counted.reads());
        if left == 0 {
            break;
        }
        let Some((_, step)) = round.queue.pop_first() else { break };
        if round.is_there(&step, left, has)? {
            round.look(&step)?;
        } else {
            round.missing.push(step);
        }
    }
    round.sort(has)?;
    Ok(round.end())
}

/// The function that returns which chunks are there.
type Has<'a, E> = dyn FnMut(&[ChunkHash]) -> Result<Vec<bool>, E> + 'a;

/// A round of a descent.
struct Round<'a, S> {
    source: &'a Counted<'a, S>,
    /// Steps by depth, in the order in which they were found. Otherwise a small budget would let nodes far below be
    /// looked at again for every path to them.
    queue: BTreeMap<(usize, usize), Step>,
    /// Steps whose nodes are missing.
    missing: Vec<Step>,
    /// Chunks that the nodes read last name, and steps into those that are nodes.
    named: Vec<(ChunkHash, Option<Step>)>,
    /// The chunks about which `has` was asked, and whether they are there.
    known: BTreeMap<ChunkHash, bool>,
    /// Nodes for which there was a step.
    stepped: BTreeSet<ChunkHash>,
    /// The older directory that was used last. The steps into a directory's nodes follow each other.
    older: Option<Older>,
    lacks: Vec<ChunkHash>,
    relies: Vec<ChunkHash>,
}

impl<'a, S: Source> Round<'a, S> {
    fn new(source: &'a Counted<'a, S>) -> Self {
        Self {
            source,
            queue: BTreeMap::new(),
            missing: Vec::new(),
            named: Vec::new(),
            known: BTreeMap::new(),
            stepped: BTreeSet::new(),
            older: None,
            lacks: Vec::new(),
            relies: Vec::new(),
        }
    }

    /// Adds a step, if it is the first one into its node.
    fn add(&mut self, step: Step) {
        if step.older != Some(step.node) && self.stepped.insert(step.node) {
            self.queue.insert((step.depth, self.stepped.len()), step);
        }
    }

    /// Sorts the chunks that were named into those that are there and those that are missing.
    fn sort(&mut self, has: &mut Has<'_, S::Error>) -> Result<(), ReadError<S::Error>> {
        let named = mem::take(&mut self.named);
        self.ask(named.iter().map(|(hash, _)| *hash).collect(), has)?;
        for step in named.into_iter().filter_map(|(_, step)| step) {
            self.add(step);
        }
        Ok(())
    }

    /// Whether the node of a step is there. A step from an earlier round is asked about together with those behind it
    /// for which the budget may suffice.
    fn is_there(
        &mut self,
        step: &Step,
        budget: usize,
        has: &mut Has<'_, S::Error>,
    ) -> Result<bool, ReadError<S::Error>> {
        if !self.known.contains_key(&step.node) {
            let behind = self.queue.values().take(budget.min(BATCH_CHUNKS) - 1);
            let nodes = iter::once(step).chain(behind).map(|step| step.node).collect();
            self.ask(nodes, has)?;
        }
        Ok(self.known.get(&step.node) == Some(&true))
    }

    /// Asks about chunks that are not known yet.
    fn ask(&mut self, mut hashes: Vec<ChunkHash>, has: &mut Has<'_, S::Error>) -> Result<(), ReadError<S::Error>> {
        hashes.retain(|hash| match self.known.entry(*hash) {
            btree_map::Entry::Vacant(unknown) => {
                unknown.insert(false);
                true
            }
            btree_map::Entry::Occupied(_) => false,
        });
        for batch in hashes.chunks(BATCH_CHUNKS) {
            let there = has(batch).map_err(ReadError::Source)?;
            for (at, hash) in batch.iter().enumerate() {
                if there.get(at) == Some(&true) {
                    self.known.insert(*hash, true);
                    self.relies.push(*hash);
                } else {
                    self.lacks.push(*hash);
                }
            }
        }
        Ok(())
    }

    fn end(self) -> Descent {
        let waits = self.queue.into_values().chain(self.missing).collect();
        Descent { lacks: self.lacks, relies: self.relies, waits }
    }

    /// Reads a node that is there, and collects the chunks that it names and the older tree does not.
    fn look(&mut self, step: &Step) -> Result<(), ReadError<S::Error>> {
        let Form::Directory(level) = step.form else { return self.list(step) };
        if step.depth >= DEPTH_MAX {
            return Err(ReadError::Malformed(step.node, Malformed("directories too deep")));
        }
        match node(self.source, step.node, level)? {
            Node::Index { level, below } => {
                let older = older(&mut self.older, self.source, step)?;
                for (_, hash) in below {
                    if !older.as_ref().is_some_and(|older| older.has_node(&hash)) {
                        let below = Step { node: hash, form: Form::Directory(Some(level - 1)), ..*step };
                        self.named.push((hash, Some(below)));
                    }
                }
            }
            Node::Leaf(entries) => {
                // Small files have no chunks, and the older directory is not read for them.
                let is_looked_for = |entry: &Entry| match step.parts {
                    Parts::Whole => !named(entry).is_empty(),
                    Parts::Directories => entry.directory().is_some(),
                };
                for (name, entry) in entries.iter().filter(|(_, entry)| is_looked_for(entry)) {
                    let before = match older(&mut self.older, self.source, step)? {
                        Some(older) => older.find(self.source, name)?,
                        None => None,
                    };
                    name_chunks(entry, before, step, &mut self.named);
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, step: &Step) -> Result<(), ReadError<S::Error>> {
        let read = |hash: ChunkHash| {
            let bytes = self.source.chunk(&hash).map_err(ReadError::Source)?;
            read_list(bytes).map_err(|why| ReadError::Malformed(hash, why))
        };
        let (pieces, before) = (read(step.node)?, step.older.map_or(Ok(Vec::new()), read)?);
        let before: BTreeSet<ChunkHash> = before.iter().map(|piece| piece.hash).collect();
        let new = pieces.iter().filter(|piece| !before.contains(&piece.hash));
        self.named.extend(new.map(|piece| (piece.hash, None)));
        Ok(())
    }
}

/// The older directory beside a step, which is kept for the next one.
fn older<'a, S: Source>(
    kept: &'a mut Option<Older>,
    source: &S,
    step: &Step,
) -> Result<Option<&'a mut Older>, ReadError<S::Error>> {
    let Some(root) = step.older else { return Ok(None) };
    if kept.as_ref().is_none_or(|kept| kept.root() != root) {
        *kept = Some(Older::open(source, root)?);
    }
    Ok(kept.as_mut())
}

/// Adds the chunks that an entry names, and the older entry of the same name does not.
fn name_chunks(entry: &Entry, before: Option<&Entry>, above: &Step, to: &mut Vec<(ChunkHash, Option<Step>)>) {
    // A chunk of content can have the bytes of a node. So a node is known only if it was a node of the same form, since
    // otherwise the chunks below it are not known.
    let form = |entry: &Entry| match &entry.kind {
        Kind::Directory(_) => Some(Form::Directory(None)),
        Kind::File { content: Content::Lists(_), .. } => Some(Form::List),
        Kind::File { .. } | Kind::Symlink(_) => None,
    };
    let own = form(entry);
    let before = before.filter(|before| own.is_none() || form(before) == own).map(named).unwrap_or_default();
    let known: BTreeSet<&ChunkHash> = before.iter().collect();
    for (at, hash) in named(entry).into_iter().enumerate().filter(|(_, hash)| !known.contains(hash)) {
        let older = before.get(at).copied();
        let depth = above.depth + usize::from(own != Some(Form::List));
        to.push((hash, own.map(|form| Step { node: hash, form, older, depth, ..*above })));
    }
}
