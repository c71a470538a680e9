//! Trees as the disks of a file server and a member handle them: the check of a switch, its merge, the locked
//! paths that it changes, and the edits of an offer.
//!
//! ```text
//!   edits   bytes u32   edits (`tree::Edits`)   (bytes u32, chunk) *
//! ```

use crate::member_work::{Applied, Edited};
use crate::server_work::{Checked, Compare, Merged, MergedTree};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};
use core::convert::Infallible;
use tree::limits::EDITS_MAX;
use tree::{
    ApplyError, ChunkHash, Comparison, Descent, Edits, Merge, MergeError, Parts, Path, ReadError, Sides, Sink, Source,
    Step, descend,
};
use types::limits::{EDITS_BYTES_MAX, OFFER_CONTENT_BYTES_MAX};

/// Missing chunks that a check names at most.
const LACKS_MAX: usize = 1000;

/// The nodes that a check looks at in one go.
const BUDGET: usize = 4096;

/// Checks a tree, where another one should be whole (rule SwitchHasAll). `has` returns which chunks are there.
///
/// If a node cannot be read, it looks at the whole tree: the node may be one of the older tree, or one that `has` calls
/// missing from now on.
///
/// # Errors
/// Errors of the source, and nodes that are malformed.
pub fn check<S: Source>(
    source: &S,
    has: &mut impl FnMut(&[ChunkHash]) -> Result<Vec<bool>, S::Error>,
    base: Option<ChunkHash>,
    root: ChunkHash,
) -> Result<Checked, ReadError<S::Error>> {
    match check_beside(source, has, base, root) {
        Err(ReadError::Source(_)) => check_beside(source, has, None, root),
        checked => checked,
    }
}

fn check_beside<S: Source>(
    source: &S,
    has: &mut impl FnMut(&[ChunkHash]) -> Result<Vec<bool>, S::Error>,
    base: Option<ChunkHash>,
    root: ChunkHash,
) -> Result<Checked, ReadError<S::Error>> {
    let (mut steps, mut new) = (Vec::from([Step::root(root, base)]), Vec::new());
    while !steps.is_empty() {
        let found = descend(source, has, steps, BUDGET)?;
        new.extend(found.relies);
        if !found.lacks.is_empty() {
            let lacks = found.lacks.into_iter().take(LACKS_MAX).collect();
            return Ok(Checked { lacks, new, edits: Bytes::new() });
        }
        steps = found.waits;
    }
    let edits = match base {
        Some(base) => edits_between(source, base, root)?,
        None => Bytes::new(),
    };
    Ok(Checked { lacks: Vec::new(), new, edits })
}

/// The conflicts of a merge that are listed.
const CONFLICTS_MAX: usize = 10;

/// The bytes of a list of conflicts: a message has room for it.
const CONFLICTS_BYTES_MAX: usize = 900;

/// The most bytes of edits in an offer. It leaves room for the lengths of the edits and of each content.
const EDITS_PART_BYTES_MAX: usize = EDITS_BYTES_MAX - OFFER_CONTENT_BYTES_MAX - 4 * (1 + EDITS_MAX);

/// Chunks by their names.
pub type Nodes = BTreeMap<ChunkHash, Bytes>;

/// Merges a tree with the newest one, both of which are whole. Returns the nodes to be made durable before the merged
/// tree is relied on (rule DurableFirst).
///
/// # Errors
/// Errors of the source, nodes that are malformed, and more changes than a merge compares.
pub fn merge<S: Source>(source: &S, sides: Sides) -> Result<(Merged, Nodes), MergeError<S::Error, Infallible>> {
    let mut made = Made(Nodes::new());
    let (root, growth) = match tree::merge(source, sides, CONFLICTS_MAX, &mut made)? {
        Merge::Tree(root, growth) => (root, growth),
        Merge::Conflicts(paths) => {
            return Ok((Merged::Conflicts(list(&paths, paths.len() < CONFLICTS_MAX)), Nodes::new()));
        }
    };
    let edits = edits_between(&Beside { nodes: &made.0, source }, sides.head, root)?;
    let new = made.0.keys().copied().collect();
    Ok((Merged::Tree(MergedTree { root, new, growth, edits }), made.0))
}

/// Lists the conflicts of a merge for people, as far as a message has room for them. `is_all` is false if there may be
/// more.
pub fn list(paths: &[Path], is_all: bool) -> String {
    let mut list = String::new();
    for (at, path) in paths.iter().enumerate() {
        let path = path.to_string();
        if at > 0 && list.len() + path.len() > CONFLICTS_BYTES_MAX {
            return list + " and others";
        }
        list += if at > 0 { ", " } else { "" };
        list += &path;
    }
    list + if is_all { "" } else { " and perhaps others" }
}

/// The nodes that a merge has made.
struct Made(Nodes);

impl Sink for Made {
    type Error = Infallible;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), Infallible> {
        self.0.insert(hash, bytes);
        Ok(())
    }
}

/// The nodes of a merged tree, and the chunks that were there before.
struct Beside<'a, S> {
    nodes: &'a Nodes,
    source: &'a S,
}

impl<S: Source> Source for Beside<'_, S> {
    type Error = S::Error;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, S::Error> {
        self.nodes.get(hash).map_or_else(|| self.source.chunk(hash), |bytes| Ok(bytes.clone()))
    }

    fn chunk_at_hand(&self, hash: &ChunkHash) -> Result<Option<Bytes>, S::Error> {
        self.nodes.get(hash).map_or_else(|| self.source.chunk_at_hand(hash), |bytes| Ok(Some(bytes.clone())))
    }
}

/// The paths of these at which two trees differ; without an older tree, those that the newer one has. An entry that
/// cannot be read counts as one that differs.
pub fn changed<S: Source>(source: &S, Compare { base, root, mut paths }: Compare) -> Vec<Path> {
    let mut comparison = Comparison::new(source, base, root);
    paths.retain(|path| comparison.differs(path).unwrap_or(true));
    paths
}

/// The edits that lead from one tree to another, for an offer; nothing if they are too large for one. The content that
/// they need comes with them, unless it is more than an offer has: then it was announced, and members have most of it.
///
/// # Errors
/// Errors of the source, and nodes that cannot be read.
pub fn edits_between<S: Source>(source: &S, base: ChunkHash, root: ChunkHash) -> Result<Bytes, ReadError<S::Error>> {
    let Some(edits) = Edits::between(source, base, root, EDITS_MAX, EDITS_PART_BYTES_MAX)? else {
        return Ok(Bytes::new());
    };
    let encoded = edits.encode();
    let mut bytes = Vec::with_capacity(4 + encoded.len());
    bytes.put_u32_le(encoded.len() as u32);
    bytes.put_slice(&encoded);
    let (without_content, mut content_bytes) = (bytes.len(), 0);
    for hash in edits.content() {
        // The receiver fetches what is not here.
        let Some(chunk) = source.chunk_at_hand(&hash).map_err(ReadError::Source)? else { continue };
        content_bytes += chunk.len();
        if content_bytes > OFFER_CONTENT_BYTES_MAX {
            bytes.truncate(without_content);
            break;
        }
        bytes.put_u32_le(chunk.len() as u32);
        bytes.put_slice(&chunk);
    }
    Ok(bytes.into())
}

/// Applies the edits of an offer to a tree that is whole, and gives the chunks that they make to `sink`. `has` returns
/// which chunks are there. Returns what the offered tree lacks and relies on; only content can be missing, as the edits
/// make every new node. If they do not make the offered tree, it relies on nothing that was added, and must be
/// descended into. So must a tree in which a file with lists of pieces has changed, as the edits do not name those.
///
/// Where only the directories of trees are there, nothing is missing afterwards: content that came with the edits is
/// given to `sink`, and relied on by nothing.
///
/// # Errors
/// Errors of the source and the sink.
pub fn apply_edits<S: Source, K: Sink>(
    source: &S,
    has: &mut impl FnMut(&[ChunkHash]) -> Result<Vec<bool>, S::Error>,
    Edited { base, root, parts, edits: mut bytes }: Edited,
    sink: &mut K,
) -> Result<Applied, ApplyError<S::Error, K::Error>> {
    let look = Applied::look(parts, base, root);
    let Some(edits) = take(&mut bytes).and_then(|edits| Edits::decode(edits).ok()) else { return Ok(look) };
    let mut sink = Noting { sink, added: BTreeSet::new() };
    let made = match edits.apply(source, base, &mut sink) {
        Ok(made) => made,
        // They are for another tree.
        Err(ApplyError::NotDirectory(_)) => return Ok(look),
        Err(error) => return Err(error),
    };
    let nodes = sink.added.clone();
    let mut came = Vec::new();
    while let Some(chunk) = take(&mut bytes) {
        let hash = ChunkHash::of(&chunk);
        if !nodes.contains(&hash) {
            came.push((hash, chunk.len() as u32));
        }
        sink.add(hash, chunk).map_err(ApplyError::Sink)?;
    }
    if made != root {
        return Ok(look);
    }
    if parts == Parts::Directories {
        let found = Descent { relies: nodes.into_iter().collect(), ..Descent::default() };
        return Ok(Applied { found, content: came });
    }
    if edits.has_lists() {
        let found = Descent { relies: sink.added.into_iter().collect(), ..look.found };
        return Ok(Applied { found, ..look });
    }
    let content: BTreeSet<ChunkHash> = edits.content().filter(|hash| !sink.added.contains(hash)).collect();
    let content: Vec<ChunkHash> = content.into_iter().collect();
    let here = has(&content).map_err(|error| ApplyError::Read(ReadError::Source(error)))?;
    let (here, lacks): (Vec<_>, Vec<_>) = content.into_iter().zip(here).partition(|(_, is_here)| *is_here);
    let relies = here.into_iter().map(|(hash, _)| hash).chain(sink.added).collect();
    let found = Descent { lacks: lacks.into_iter().map(|(hash, _)| hash).collect(), relies, waits: Vec::new() };
    Ok(Applied { found, content: Vec::new() })
}

/// A sink that knows what was added.
struct Noting<'a, K> {
    sink: &'a mut K,
    added: BTreeSet<ChunkHash>,
}

impl<K: Sink> Sink for Noting<'_, K> {
    type Error = K::Error;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), K::Error> {
        self.added.insert(hash);
        self.sink.add(hash, bytes)
    }
}

/// Takes a length and as many bytes.
fn take(bytes: &mut Bytes) -> Option<Bytes> {
    let length = bytes.try_get_u32_le().ok()? as usize;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}
