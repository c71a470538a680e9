//! The disks of a file server and of a member of published files in virtual time: their contents, over maps.

use crate::Content;
use bytes::Bytes;
use spread::messages::{ChangeKind, Consistency, VisitorKey};
use spread::server_work::{Check, NewRevision, NotDone, Place, Settings, SiteChange, SiteState};
use spread::{SiteKey, Swept, member_work, server_work, trees};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;
use tree::{ChunkHash, Part, Parts, Sink, Source, descend, mark};

/// Chunks by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks(pub BTreeMap<ChunkHash, Bytes>);

impl Source for Chunks {
    type Error = ChunkHash;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, ChunkHash> {
        self.0.get(hash).cloned().ok_or(*hash)
    }
}

impl Sink for Chunks {
    type Error = Infallible;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), Infallible> {
        self.0.insert(hash, bytes);
        Ok(())
    }
}

impl Chunks {
    fn has(&self, hashes: &[ChunkHash]) -> Vec<bool> {
        hashes.iter().map(|hash| self.0.contains_key(hash)).collect()
    }

    /// The chunks that these parts of the trees do not need.
    fn unused(&self, parts: Parts, roots: &[ChunkHash]) -> Result<Vec<ChunkHash>, String> {
        let mut used = BTreeSet::new();
        for root in roots {
            let is_new = |hash: &ChunkHash, part| is_of(parts, part) && used.insert((*hash, part));
            mark(self, *root, is_new).map_err(|error| format!("{error:?}"))?;
        }
        let is_used = |hash: &ChunkHash| Part::ALL.iter().any(|part| used.contains(&(*hash, *part)));
        Ok(self.0.keys().filter(|hash| !is_used(hash)).copied().collect())
    }

    /// The bytes of the chunks that these parts of the trees do not need.
    pub fn unused_bytes(&self, parts: Parts, roots: &[ChunkHash]) -> u64 {
        let bytes = |hashes: Vec<ChunkHash>| hashes.iter().map(|hash| self.0[hash].len() as u64).sum();
        self.unused(parts, roots).map_or(u64::MAX, bytes)
    }

    /// How many chunks none of these trees needs.
    pub fn unused_of(&self, roots: &[ChunkHash]) -> usize {
        self.unused(Parts::Whole, roots).map_or(usize::MAX, |unused| unused.len())
    }

    fn sweep(&mut self, hashes: &[ChunkHash]) -> Swept {
        let mut swept = Swept::default();
        for bytes in hashes.iter().filter_map(|hash| self.0.remove(hash)) {
            swept.chunks += 1;
            swept.bytes += bytes.len() as u64;
        }
        swept
    }

    /// Returns the first chunk of a tree that is missing or does not match its name.
    pub fn lacks(&self, root: ChunkHash) -> Option<ChunkHash> {
        self.lacks_of(Parts::Whole, root)
    }

    /// Returns the first chunk of these parts of a tree that is missing or does not match its name.
    pub fn lacks_of(&self, parts: Parts, root: ChunkHash) -> Option<ChunkHash> {
        let mut named = BTreeSet::new();
        if let Err(error) = mark(self, root, |hash, part| is_of(parts, part) && named.insert((*hash, part))) {
            let tree::ReadError::Source(hash) = error else { return Some(root) };
            return Some(hash);
        }
        let mut named = named.into_iter().map(|(hash, _)| hash);
        named.find(|hash| self.0.get(hash).is_none_or(|bytes| ChunkHash::of(bytes) != *hash))
    }
}

/// Whether a chunk that is this part of a tree is one of these parts.
fn is_of(parts: Parts, part: Part) -> bool {
    parts == Parts::Whole || part == Part::Directory
}

/// The revisions that became durable at a store, over all copies of its disk.
#[derive(Debug, Default)]
pub struct Happened {
    /// The revisions, until a test takes them.
    pub published: RefCell<Vec<NewRevision>>,
    /// Reads return other bytes than were written.
    pub lies: Cell<bool>,
    /// Disks fail at some of their work.
    pub fails: Cell<bool>,
    /// The consistency of a site that is created.
    pub consistency: Consistency,
    /// How many revisions it keeps.
    pub keep: u32,
    works: Cell<u32>,
}

impl Happened {
    /// Nothing yet, to a site that is going to have this consistency and to keep so many revisions.
    pub fn of(consistency: Consistency, keep: u32) -> Self {
        Self { consistency, keep, ..Self::default() }
    }

    /// Whether the next piece of work fails.
    fn fails(&self) -> bool {
        self.works.set(self.works.get() + 1);
        self.fails.get() && self.works.get().is_multiple_of(3)
    }
}

/// The disk of a file server.
#[derive(Clone, Debug)]
pub struct ServerDisk {
    /// Its chunks.
    pub chunks: Chunks,
    /// The records of sites.
    pub sites: BTreeMap<SiteKey, SiteState>,
    /// The events on it and its copies.
    pub happened: Rc<Happened>,
}

impl ServerDisk {
    /// An empty disk.
    pub fn new(happened: Rc<Happened>) -> Self {
        Self { chunks: Chunks::default(), sites: BTreeMap::new(), happened }
    }

    fn publish(&mut self, new: NewRevision) -> Settings {
        let site = self.sites.entry(new.key.clone()).or_insert_with(|| SiteState {
            key: new.key.clone(),
            revisions: Vec::new(),
            settings: Settings::new(self.happened.keep, VisitorKey([7; 32]), self.happened.consistency),
            publishes: Vec::new(),
        });
        site.revisions.push(new.revision);
        site.revisions.retain(|it| !new.drops.contains(&it.number));
        site.publishes.push((new.identity, new.revision));
        let settings = site.settings;
        self.happened.published.borrow_mut().push(new);
        settings
    }

    fn change(&mut self, key: &SiteKey, change: SiteChange) -> Result<Option<SiteState>, NotDone> {
        match change.kind {
            ChangeKind::Create => Err(NotDone::IsThere),
            ChangeKind::Set => {
                self.sites.get_mut(key).ok_or(NotDone::NoSite)?.settings.set(change.settings);
                Ok(None)
            }
            ChangeKind::Remove => self.sites.remove(key).map(|_| None).ok_or(NotDone::NoSite),
        }
    }
}

impl Content for ServerDisk {
    type Work = server_work::Work;
    type Done = server_work::Done;

    fn is_ordered(work: &Self::Work) -> bool {
        !matches!(work, server_work::Work::Read(_) | server_work::Work::Edits(..))
    }

    fn may_be_passed(work: &Self::Work) -> bool {
        matches!(work, server_work::Work::Mark(_))
    }

    fn work(&mut self, work: Self::Work) -> Option<Self::Done> {
        use server_work::{Done, Work};
        if self.happened.fails() {
            return Some(not_done(work));
        }
        Some(match work {
            Work::Missing(id, hashes) => {
                let missing = hashes.into_iter().filter(|hash| !self.chunks.0.contains_key(hash)).collect();
                Done::Missing(id, Ok(missing))
            }
            Work::Put(id, chunks) => {
                if chunks.iter().any(|(hash, bytes)| ChunkHash::of(bytes) != *hash) {
                    return Some(Done::Put(id, Err(NotDone::Malformed("another chunk".to_owned()))));
                }
                self.chunks.0.extend(chunks);
                Done::Put(id, Ok(()))
            }
            Work::Check(id, Check { base, root }) => {
                let has = &mut |hashes: &[ChunkHash]| Ok(self.chunks.has(hashes));
                let checked = trees::check(&self.chunks, has, base, root);
                Done::Checked(id, checked.map_err(|error| NotDone::Malformed(format!("{error:?}"))))
            }
            Work::Merge(id, sides) => {
                let merged = trees::merge(&self.chunks, sides).map(|(merged, nodes)| {
                    self.chunks.0.extend(nodes);
                    merged
                });
                Done::Merged(id, merged.map_err(|error| NotDone::Malformed(format!("{error:?}"))))
            }
            Work::Compare(id, compare) => Done::Compared(id, Ok(trees::changed(&self.chunks, compare))),
            Work::Edits(id, base, root) => {
                Done::Edits(id, trees::edits_between(&self.chunks, base, root).unwrap_or_default())
            }
            Work::Publish(id, new) => Done::Published(id, Ok(self.publish(new))),
            Work::Change(id, key, change) => Done::Changed(id, self.change(&key, change)),
            Work::Drop(key, numbers) => {
                if let Some(site) = self.sites.get_mut(&key) {
                    site.revisions.retain(|it| !numbers.contains(&it.number));
                }
                Done::Dropped(key, numbers)
            }
            Work::Mark(roots) => Done::Marked(self.chunks.unused(Parts::Whole, &roots).map_err(NotDone::Failed)),
            Work::Sweep(hashes) => Done::Swept(Ok(self.chunks.sweep(&hashes))),
            Work::Read(hash) => {
                let bytes = self.chunks.0.get(&hash).cloned();
                let lies = self.happened.lies.get();
                Done::Read(hash, bytes.map(|bytes| if lies { [&bytes[1..], b"!"].concat().into() } else { bytes }))
            }
            // A store of one process has all sites.
            Work::Locate(space) => Done::Located(space, Place::Here),
            Work::HandOver(id, ..) => Done::HandOver(id, Err(NotDone::Failed("there is no other node".to_owned()))),
        })
    }
}

/// A piece of a store's work that its disk refuses.
fn not_done(work: server_work::Work) -> server_work::Done {
    use server_work::{Done, Work};
    let why = || NotDone::Failed("a failing disk".to_owned());
    match work {
        Work::Missing(id, _) => Done::Missing(id, Err(why())),
        Work::Put(id, _) => Done::Put(id, Err(why())),
        Work::Check(id, _) => Done::Checked(id, Err(why())),
        Work::Merge(id, _) => Done::Merged(id, Err(why())),
        Work::Compare(id, _) => Done::Compared(id, Err(why())),
        Work::Edits(id, ..) => Done::Edits(id, Bytes::new()),
        Work::Publish(id, _) => Done::Published(id, Err(why())),
        Work::Change(id, ..) => Done::Changed(id, Err(why())),
        Work::Drop(key, _) => Done::Dropped(key, Vec::new()),
        Work::Mark(_) => Done::Marked(Err(why())),
        Work::Sweep(_) => Done::Swept(Err(why())),
        Work::Read(hash) => Done::Read(hash, None),
        Work::Locate(space) => Done::Located(space, Place::Away("a failing disk".to_owned())),
        Work::HandOver(id, ..) => Done::HandOver(id, Err(why())),
    }
}

/// The disk of a member.
#[derive(Clone, Debug)]
pub struct MemberDisk {
    /// Its chunks.
    pub chunks: Chunks,
    /// The member's record.
    pub state: Option<member_work::State>,
    happened: Rc<Happened>,
}

impl MemberDisk {
    /// An empty disk.
    pub fn new(happened: Rc<Happened>) -> Self {
        Self { chunks: Chunks::default(), state: None, happened }
    }
}

impl Content for MemberDisk {
    type Work = member_work::Work;
    type Done = member_work::Done;

    fn is_ordered(_: &Self::Work) -> bool {
        true
    }

    fn may_be_passed(work: &Self::Work) -> bool {
        matches!(work, member_work::Work::Mark(..))
    }

    fn work(&mut self, work: Self::Work) -> Option<Self::Done> {
        use member_work::{Applied, Done, Work};
        if self.happened.fails() {
            let why = || "a failing disk".to_owned();
            return match work {
                Work::Apply(_) | Work::Descend(_) => Some(Done::Descended(Err(why()))),
                Work::Put(hash, _) => Some(Done::Put(hash, Err(why()))),
                Work::Switch(state) => {
                    let number = state.revisions.last().map(|it| it.number).unwrap_or_default();
                    Some(Done::Switched(number, Err(why())))
                }
                Work::Mark(..) => Some(Done::Marked(Err(why()))),
                Work::Sweep(_) => Some(Done::Swept(Err(why()))),
            };
        }
        Some(match work {
            Work::Apply(edited) => {
                let mut made = Chunks::default();
                let has = &mut |hashes: &[ChunkHash]| Ok(self.chunks.has(hashes));
                let look = Applied::look(edited.parts, edited.base, edited.root);
                let applied = trees::apply_edits(&self.chunks, has, edited, &mut made).unwrap_or(look);
                if applied.is_stored() {
                    self.chunks.0.extend(made.0);
                }
                Done::Applied(applied)
            }
            Work::Descend(steps) => {
                let has = &mut |hashes: &[ChunkHash]| Ok(self.chunks.has(hashes));
                let found = descend(&self.chunks, has, steps, 2);
                Done::Descended(found.map_err(|error| format!("{error:?}")))
            }
            Work::Put(hash, bytes) => {
                let is_it = ChunkHash::of(&bytes) == hash;
                if is_it {
                    self.chunks.0.insert(hash, bytes);
                }
                Done::Put(hash, Ok(is_it))
            }
            Work::Switch(state) => {
                let number = state.revisions.last().map(|it| it.number).unwrap_or_default();
                self.state = Some(state);
                Done::Switched(number, Ok(()))
            }
            Work::Mark(parts, roots) => Done::Marked(
                self.chunks
                    .unused(parts, &roots)
                    .map(|unused| unused.into_iter().map(|hash| (hash, self.chunks.0[&hash].len() as u32)).collect()),
            ),
            Work::Sweep(hashes) => Done::Swept(Ok(self.chunks.sweep(&hashes))),
        })
    }
}
