//! The private changes of a mount: by path, the entry that the site had and the one that is there instead.
//!
//! The private tree is the site's newest revision with these changes, and needs no older revision. A newer one of the
//! site is followed path by path: a change stays if the site still has the entry that it was made from (rule
//! CompareBase). Otherwise the path is in conflict: the mount shows the private entry, which is not published until
//! someone decides.

use crate::error::FilesError;
use crate::mount::writes::link_of;
use std::cmp::max;
use std::collections::{BTreeMap, BTreeSet};
use tree::{Attributes, ChunkHash, Comparison, Edit, Entry, Growth, Kind, Path, Sink, Source, Tree, apply, diff};

/// The attributes of a directory that the site has removed above a private entry, and of which no tree is left.
const DIRECTORY_MODE: u16 = 0o755;

/// A private change. The entries of directories are without their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The site's entry that the change was made from.
    pub(super) base: Option<Entry>,
    /// The entry here.
    pub(super) own: Option<Entry>,
    /// The entry that a publish has sent to the store, whose answer may not have come.
    pub(super) sent: Option<Sent>,
    /// Whether all content of the entry is in the branch's own chunks.
    pub(super) is_local: bool,
}

/// The entry at a path in a tree that was published, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent(pub(super) Option<Entry>);

/// The changes, and the paths in conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    all: BTreeMap<Path, Change>,
    conflicts: BTreeSet<Path>,
}

/// Changes by path, as the journal keeps them; none for one that is no longer there.
pub(super) type Updates = Vec<(Path, Option<Change>)>;

/// The names that the site's newest revision has for a file, by the number of its hard links.
pub(super) type Names<'a> = &'a mut dyn FnMut(u64) -> Result<BTreeSet<Path>, FilesError>;

/// A tree with changes made to it.
pub(super) struct Applied {
    pub(super) root: ChunkHash,
    /// Directories that cannot be removed, as the site has got entries in them.
    pub(super) kept: Vec<Path>,
}

/// The part of the changes that is published or discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part(BTreeSet<Path>);

impl Changes {
    /// Takes up the changes of a journal.
    pub(super) fn new(all: BTreeMap<Path, Change>) -> Self {
        Self { all, conflicts: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &Change)> {
        self.all.iter()
    }

    /// The paths that the site has changed, too.
    pub(super) fn conflicts(&self) -> &BTreeSet<Path> {
        &self.conflicts
    }

    /// Makes updates, and forgets changes that have become none.
    pub(super) fn update(&mut self, updates: &Updates) {
        for (path, change) in updates {
            if let Some(change) = change {
                self.all.insert(path.clone(), change.clone());
            } else {
                self.all.remove(path);
                self.conflicts.remove(path);
            }
        }
    }

    /// The updates that turn the private tree `view` into another one. The site's tree is `head`.
    pub(super) fn updates<S>(
        &self,
        source: &S,
        head: ChunkHash,
        view: ChunkHash,
        newer: ChunkHash,
    ) -> Result<Updates, FilesError>
    where
        S: Source<Error = FilesError>,
    {
        let mut differences = Vec::new();
        diff(source, view, newer, &mut |path, change| {
            let own = match change {
                tree::Change::Added(own) | tree::Change::Changed(_, own) => Some(plain(own)),
                tree::Change::Removed(_) => None,
            };
            differences.push((path.clone(), own));
        })?;
        let (head, mut updates) = (Tree::new(source, head), Updates::new());
        for (path, own) in differences {
            let known = self.all.get(&path);
            let now = match known.filter(|_| !self.conflicts.contains(&path)) {
                Some(known) => known.base.clone(),
                None => entry(&head, &path)?,
            };
            let sent = known.and_then(|known| known.sent.clone());
            let is_over = own == now && sent.is_none();
            let base = known.map_or(now, |known| known.base.clone());
            updates.push((path, (!is_over).then_some(Change { base, own, sent, is_local: false })));
        }
        Ok(updates)
    }

    /// The changes at a path and below it, with the other names of their files, and with the directories above that
    /// are new here. With `removed`, also those above that are removed here.
    pub(super) fn part(&self, at: &Path, removed: bool) -> Part {
        let mut part: BTreeSet<Path> =
            self.all.keys().filter(|path| path.names().starts_with(at.names())).cloned().collect();
        let links: BTreeSet<u64> = part.iter().filter_map(|path| self.all.get(path)).flat_map(links_of).collect();
        if !links.is_empty() {
            let is_linked = |change: &Change| links_of(change).any(|link| links.contains(&link));
            part.extend(self.all.iter().filter(|(_, change)| is_linked(change)).map(|(path, _)| path.clone()));
        }
        let above: BTreeSet<Path> = part.iter().flat_map(above).collect();
        let is_needed = |path: &Path| {
            let is_new = |change: &Change| change.base.is_none() || self.conflicts.contains(path);
            let change = self.all.get(path);
            change.is_some_and(|change| is_made(change) && is_new(change) || removed && change.own.is_none())
        };
        part.extend(above.into_iter().filter(is_needed));
        Part(part)
    }

    /// The changes of a part, by path.
    pub(super) fn of<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = (&'a Path, &'a Change)> {
        part.0.iter().filter_map(|path| Some((path, self.all.get(path)?)))
    }

    /// The paths of a part that are in conflict.
    pub(super) fn conflicts_of<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = &'a Path> {
        self.conflicts.iter().filter(|path| part.0.contains(path))
    }

    /// Makes the changes, or a part of them, to a tree of the site.
    pub(super) fn apply<S, K>(
        &self,
        source: &S,
        root: ChunkHash,
        part: Option<&Part>,
        sink: &mut K,
    ) -> Result<Applied, FilesError>
    where
        S: Source<Error = FilesError>,
        K: Sink<Error = FilesError>,
    {
        let (mut edits, mut emptied, mut replaced): (Vec<Edit>, Vec<&Path>, Option<&Path>) = Default::default();
        for (path, change) in self.all.iter().filter(|(path, _)| part.is_none_or(|part| part.0.contains(*path))) {
            // A file in place of a directory replaces everything below.
            if replaced.is_some_and(|above| path.names().starts_with(above.names())) {
                continue;
            }
            match &change.own {
                Some(own) if own.directory().is_some() => {
                    edits.push(Edit::Directory(path.clone(), own.attributes.clone()));
                }
                Some(own) => {
                    edits.push(Edit::Set(path.clone(), own.clone()));
                    replaced = Some(path);
                }
                None if is_directory(change.base.as_ref()) || self.conflicts.contains(path) => emptied.push(path),
                None => edits.push(Edit::Remove(path.clone())),
            }
        }
        let mut root = apply(source, root, &edits, sink)?;
        // From below, as the removal of one directory may empty the one above.
        let mut kept = Vec::new();
        let (tree, mut removed) = (Tree::new(source, root), BTreeSet::<&Path>::new());
        for path in emptied.into_iter().rev() {
            let Some(entry) = tree.find(path)? else { continue };
            let is_removed = |name| removed.contains(&path.join(name));
            let entries = entry.directory().map_or(Ok(Vec::new()), |node| tree.entries(node))?;
            if entries.iter().all(|(name, _)| is_removed(name)) {
                removed.insert(path);
            } else {
                kept.push(path.clone());
            }
        }
        // The topmost of directories that are removed takes the others with it.
        let topmost = removed.iter().filter(|path| !above(path).any(|above| removed.contains(&above)));
        let edits: Vec<Edit> = topmost.map(|path| Edit::Remove((*path).clone())).collect();
        if !edits.is_empty() {
            root = apply(source, root, &edits, sink)?;
        }
        Ok(Applied { root, kept })
    }

    /// Returns the changes as they are at a newer revision of the site, and the updates for the journal. `view` is the
    /// private tree until now, if it can still be read. Without an `older` revision, every path is compared.
    /// `names` returns the site's names of a file that has several.
    pub(super) fn at<S>(
        &self,
        source: &S,
        older: Option<ChunkHash>,
        newer: ChunkHash,
        view: Option<ChunkHash>,
        names: Names<'_>,
    ) -> Result<(Self, Updates), FilesError>
    where
        S: Source<Error = FilesError>,
    {
        let (mut comparison, tree) = (Comparison::new(source, older, newer), Tree::new(source, newer));
        let mut differs = |path: &Path| -> Result<bool, FilesError> {
            // Without an older revision, the changes may be from any.
            Ok(older.is_none() || comparison.differs(path)?)
        };
        let (mut updates, mut conflicts, mut missing) = (Updates::new(), self.conflicts.clone(), BTreeSet::new());
        let mut looked_at = Path::ROOT;
        for (path, change) in &self.all {
            let replaces = change.own.is_some() && !is_made(change) && is_directory(change.base.as_ref());
            let is_linked = links_of(change).next().is_some();
            if change.sent.is_some() || replaces || is_linked || differs(path)? {
                let mut settled = change.clone();
                conflicts.remove(path);
                match settle(&mut settled, entry(&tree, path)?) {
                    // A file in place of a directory would hide entries that the site has got there.
                    Settled::Stays if replaces && !self.removes_all(&tree, path)? => {
                        conflicts.insert(path.clone());
                    }
                    Settled::Gone => {
                        updates.push((path.clone(), None));
                        continue;
                    }
                    Settled::Conflict => drop(conflicts.insert(path.clone())),
                    Settled::Stays => {}
                }
                if settled != *change {
                    updates.push((path.clone(), Some(settled)));
                }
            }
            let Some(directory) = above(path).last().filter(|above| change.own.is_some() && *above != looked_at) else {
                continue;
            };
            for above in above(path) {
                let is_here = self.all.get(&above).is_some_and(is_made);
                if !is_here && differs(&above)? && !is_directory(entry(&tree, &above)?.as_ref()) {
                    missing.insert(above);
                }
            }
            looked_at = directory;
        }
        // The directories above a private entry that the site has removed stay for it, in conflict.
        for path in missing {
            let before = view.map(|view| entry(&Tree::new(source, view), &path)).transpose()?.flatten();
            let before = before.filter(|it| it.directory().is_some()).unwrap_or_else(new_directory);
            conflicts.insert(path.clone());
            let (base, own) = (Some(before.clone()), Some(before));
            updates.push((path, Some(Change { base, own, sent: None, is_local: true })));
        }
        let mut all = Self { all: self.all.clone(), conflicts };
        all.update(&updates);
        all.compare_links(&tree, names)?;
        Ok((all, updates))
    }

    /// Whether everything below a path of the site is removed here.
    fn removes_all<S>(&self, tree: &Tree<S>, path: &Path) -> Result<bool, FilesError>
    where
        S: Source<Error = FilesError>,
    {
        let mut rest: Vec<(Path, ChunkHash)> =
            tree.directory(path)?.map(|node| (path.clone(), node)).into_iter().collect();
        while let Some((path, node)) = rest.pop() {
            for (name, entry) in tree.entries(node)? {
                let path = path.join(&name);
                if self.all.get(&path).is_none_or(|change| change.own.is_some()) {
                    return Ok(false);
                }
                rest.extend(entry.directory().map(|node| (path, node)));
            }
        }
        Ok(true)
    }

    /// Finds files with several names of which the site has changed one, or added one: all of them are in conflict, as
    /// the names would no longer be those of one file.
    fn compare_links<S>(&mut self, tree: &Tree<S>, names: Names<'_>) -> Result<(), FilesError>
    where
        S: Source<Error = FilesError>,
    {
        let own = |change: &Change| change.own.as_ref().and_then(|own| Some((link_of(own)?, own.clone())));
        let linked: BTreeMap<u64, Entry> = self.all.values().filter_map(own).collect();
        for (link, own) in linked {
            for name in names(link)?.iter().filter(|name| !self.all.contains_key(name)).collect::<Vec<_>>() {
                if entry(tree, name)?.as_ref() != Some(&own) {
                    let is_of_it = |change: &Change| links_of(change).any(|of| of == link);
                    let paths = self.all.iter().filter(|(_, change)| is_of_it(change)).map(|(path, _)| path.clone());
                    self.conflicts.extend(paths);
                    break;
                }
            }
        }
        Ok(())
    }

    /// How much larger a part of the changes makes the site, whose tree is this one.
    pub(super) fn growth<S>(&self, source: &S, root: ChunkHash, part: &Part) -> Result<Growth, FilesError>
    where
        S: Source<Error = FilesError>,
    {
        let (mut growth, tree) = (Growth::default(), Tree::new(source, root));
        for (path, change) in self.of(part) {
            let before = if self.conflicts.contains(path) { entry(&tree, path)? } else { change.base.clone() };
            growth.add(before.as_ref(), change.own.as_ref());
        }
        Ok(growth)
    }
}

impl Part {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The state of a change at a newer revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// The site has the entry now, or a later one that takes its place.
    Gone,
    Stays,
    Conflict,
}

/// Compares a change with the site's entry at its path.
fn settle(change: &mut Change, head: Option<Entry>) -> Settled {
    if let Some((own, newer)) = change.own.as_ref().zip(head.as_ref())
        && own.directory().is_some()
        && newer.directory().is_some()
    {
        let agrees = |other: Option<&Entry>| other.is_some_and(|other| other.is_same_but_for_time(newer));
        let is_sent = agrees(change.sent.as_ref().and_then(|sent| sent.0.as_ref()));
        let mut merged = own.clone();
        if is_only_later(change) {
            merged = newer.clone();
        } else if !is_sent && !agrees(Some(own)) && !agrees(change.base.as_ref()) {
            return Settled::Conflict;
        }
        // A directory's time is the later one, as both have changed names in it.
        merged.attributes.modified = max(own.attributes.modified, newer.attributes.modified);
        change.sent.take_if(|_| is_sent);
        (change.base, change.own) = (head, Some(merged));
        return if change.base == change.own { Settled::Gone } else { Settled::Stays };
    }
    if head == change.own {
        return Settled::Gone;
    }
    if change.sent.as_ref().is_some_and(|sent| sent.0 == head) {
        (change.base, change.sent) = (head, None);
        return Settled::Stays;
    }
    if head == change.base {
        return Settled::Stays;
    }
    // The time of a file alone gives way.
    let is_file = change.own.as_ref().is_some_and(|own| own.directory().is_none());
    if is_file && is_only_later(change) { Settled::Gone } else { Settled::Conflict }
}

/// Whether a change is one of the time alone.
fn is_only_later(change: &Change) -> bool {
    let of_both = change.base.as_ref().zip(change.own.as_ref());
    of_both.is_some_and(|(base, own)| own != base && own.is_same_but_for_time(base))
}

/// The entry at a path of a tree, without the node of a directory; none if one of the names above it is that of a file.
fn entry<S>(tree: &Tree<S>, path: &Path) -> Result<Option<Entry>, FilesError>
where
    S: Source<Error = FilesError>,
{
    Ok(tree.find(path)?.map(plain))
}

/// An entry without the node of a directory, which is that of what is in it.
fn plain(mut entry: Entry) -> Entry {
    if let Kind::Directory(node) = &mut entry.kind {
        *node = no_node();
    }
    entry
}

fn no_node() -> ChunkHash {
    ChunkHash::of(b"")
}

fn new_directory() -> Entry {
    let attributes = Attributes { mode: DIRECTORY_MODE, ..Attributes::default() };
    Entry { kind: Kind::Directory(no_node()), attributes }
}

fn is_directory(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.directory().is_some())
}

/// Whether a change makes or changes a directory.
fn is_made(change: &Change) -> bool {
    is_directory(change.own.as_ref())
}

/// The paths above one, from the topmost, without the root.
fn above(path: &Path) -> impl Iterator<Item = Path> {
    let names = path.names();
    (1..names.len()).map(|count| names[..count].iter().fold(Path::ROOT, |path, name| path.join(name)))
}

fn links_of(change: &Change) -> impl Iterator<Item = u64> {
    [&change.base, &change.own].into_iter().flatten().filter_map(link_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::HashMap;
    use tree::Time;

    /// The paths of the test: directories are named d and e.
    const PATHS: [&str; 8] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b"];

    #[derive(Default)]
    struct Chunks(RefCell<HashMap<ChunkHash, Bytes>>);

    impl Source for Chunks {
        type Error = FilesError;

        fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
            self.0.borrow().get(hash).cloned().ok_or(FilesError::MissingChunk(*hash))
        }
    }

    impl Sink for &Chunks {
        type Error = FilesError;

        fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
            self.0.borrow_mut().insert(hash, bytes);
            Ok(())
        }
    }

    type Map = BTreeMap<Path, Entry>;

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes()).unwrap()
    }

    fn file(value: u8) -> Entry {
        let content = tree::Content::Inline(Bytes::copy_from_slice(&[value]));
        Entry { kind: Kind::File { size: 1, content, link: 0 }, attributes: Attributes::default() }
    }

    fn directory(mode: u16) -> Entry {
        Entry { kind: Kind::Directory(no_node()), attributes: Attributes { mode, ..Attributes::default() } }
    }

    /// The tree of a map.
    fn root(chunks: &Chunks, map: &Map) -> ChunkHash {
        let empty = tree::write_directory(&[], &mut &*chunks).unwrap();
        let edit = |(path, entry): (&Path, &Entry)| match entry.directory() {
            Some(_) => Edit::Directory(path.clone(), entry.attributes.clone()),
            None => Edit::Set(path.clone(), entry.clone()),
        };
        apply(chunks, empty, &map.iter().map(edit).collect::<Vec<_>>(), &mut &*chunks).unwrap()
    }

    /// The map of a tree.
    fn map(chunks: &Chunks, root: ChunkHash) -> Map {
        let mut map = Map::new();
        diff(chunks, None, root, &mut |path, change| {
            if let tree::Change::Added(entry) = change {
                map.insert(path.clone(), plain(entry));
            }
        })
        .unwrap();
        map
    }

    /// Makes a change to a map, as a file system would: none where the directory above is missing.
    fn change(map: &mut Map, at: usize, value: u8) {
        let path = path(PATHS[at]);
        let above = above(&path).last();
        if above.is_some_and(|above| map.get(&above).is_none_or(|entry| entry.directory().is_none())) {
            return;
        }
        let is_directory = PATHS[at].ends_with(['d', 'e']);
        map.retain(|other, _| !(other.names().starts_with(path.names()) && (value < 2 || other == &path)));
        if value >= 2 {
            map.insert(path, if is_directory { directory(u16::from(value)) } else { file(value) });
        }
    }

    fn applied(chunks: &Chunks, changes: &mut Changes, head: ChunkHash) -> ChunkHash {
        let Applied { root, kept } = changes.apply(chunks, head, None, &mut &*chunks).unwrap();
        changes.update(&kept.into_iter().map(|path| (path, None)).collect());
        root
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

        /// Private changes stay, whatever the site does, and everything else is the site's. A path is in conflict if
        /// the site has another entry than the change was made from, and than it has made. A comparison of all paths
        /// finds what one with the older revision finds. A publish of what is in no conflict leaves no change of it.
        #[test]
        fn changes_follow_the_site(
            days in vec((vec((0..PATHS.len(), 0..6_u8), 0..5), vec((0..PATHS.len(), 0..6_u8), 0..5)), 1..5),
        ) {
            let (chunks, mut none) = (Chunks::default(), |_| Ok(BTreeSet::new()));
            let (mut site, mut changes) = (Map::new(), Changes::default());
            let mut head = root(&chunks, &site);
            let mut view = head;
            for (private, published) in days {
                let mut own = map(&chunks, view);
                for (at, value) in private {
                    change(&mut own, at, value);
                }
                let newer = root(&chunks, &own);
                let updates = changes.updates(&chunks, head, view, newer).unwrap();
                changes.update(&updates);
                view = newer;
                // The changes say all about the private tree.
                prop_assert_eq!(map(&chunks, applied(&chunks, &mut changes.clone(), head)), own.clone());

                for (at, value) in published {
                    change(&mut site, at, value);
                }
                let newer = root(&chunks, &site);
                let (followed, _) = changes.at(&chunks, Some(head), newer, Some(view), &mut none).unwrap();
                let (compared, _) = changes.at(&chunks, None, newer, Some(view), &mut none).unwrap();
                prop_assert_eq!(&followed, &compared);
                let before = changes.clone();
                changes = followed;
                (head, view) = (newer, applied(&chunks, &mut changes, newer));
                let seen = map(&chunks, view);
                for (path, change) in changes.iter() {
                    let is_conflict = changes.conflicts().contains(path);
                    let now = site.get(path);
                    let replaces = !is_made(change) && change.own.is_some() && is_directory(change.base.as_ref());
                    let hides = |(at, _): (&Path, &Entry)| {
                        at != path && at.names().starts_with(path.names()) && !changes.all.contains_key(at)
                    };
                    let is_hidden = replaces && site.iter().any(hides);
                    prop_assert_eq!(is_conflict, now != change.base.as_ref() || is_hidden, "{}", path);
                    prop_assert!(now != change.own.as_ref());
                    prop_assert_eq!(seen.get(path), change.own.as_ref(), "{}", path);
                }
                for at in PATHS.map(path).iter().filter(|path| !changes.all.contains_key(path)) {
                    let is_hidden = above(at).any(|above| changes.all.contains_key(&above));
                    prop_assert!(is_hidden || seen.get(at) == site.get(at), "{}", at);
                }
                // Nothing that was private is lost, but for directories that only stayed above it.
                let is_own = |change: &Change| change.own.is_some() && change.own != change.base;
                for (path, change) in before.iter().filter(|(_, change)| is_own(change)) {
                    prop_assert!(seen.get(path) == change.own.as_ref(), "{}", path);
                }
                let part = changes.part(&Path::ROOT, false);
                if changes.conflicts_of(&part).next().is_none() {
                    let published = changes.apply(&chunks, head, Some(&part), &mut &chunks).unwrap().root;
                    let (left, _) = changes.at(&chunks, Some(head), published, Some(view), &mut none).unwrap();
                    prop_assert!(left.is_empty());
                    prop_assert_eq!(map(&chunks, published), seen);
                }
            }
        }
    }

    #[test]
    fn the_time_of_a_directory_is_no_conflict() {
        let at = |seconds| Attributes { modified: Time { seconds, nanoseconds: 0 }, ..Attributes::default() };
        let directory = |seconds| Entry { attributes: at(seconds), ..directory(0) };
        let mut change = Change { base: Some(directory(1)), own: Some(directory(5)), sent: None, is_local: true };
        assert_eq!(settle(&mut change, Some(directory(3))), Settled::Stays);
        assert_eq!((change.base.clone(), change.own.clone()), (Some(directory(3)), Some(directory(5))));
        assert_eq!(settle(&mut change, Some(directory(7))), Settled::Gone);
        // Another mode is more than a time.
        let other = Entry { attributes: Attributes { mode: 0o700, ..at(9) }, ..directory(0) };
        let mut change = Change { base: Some(directory(1)), own: Some(other), sent: None, is_local: true };
        assert_eq!(settle(&mut change, Some(directory(3))), Settled::Stays);
        let own = change.own.as_ref().map(|own| own.attributes.mode);
        assert_eq!(own, Some(0o700));
        assert_eq!(settle(&mut change, None), Settled::Conflict);
    }

    #[test]
    fn an_entry_that_was_sent_is_no_conflict() {
        let mut change =
            Change { base: Some(file(1)), own: Some(file(3)), sent: Some(Sent(Some(file(2)))), is_local: true };
        assert_eq!(settle(&mut change, Some(file(2))), Settled::Stays);
        assert_eq!((change.base.clone(), change.sent.clone()), (Some(file(2)), None));
        assert_eq!(settle(&mut change, Some(file(1))), Settled::Conflict);
        assert_eq!(settle(&mut change, Some(file(3))), Settled::Gone);
    }

    #[test]
    fn a_link_to_a_file_that_the_site_has_changed_is_in_conflict() {
        let chunks = Chunks::default();
        let linked = |value| match file(value) {
            Entry { kind: Kind::File { size, content, .. }, attributes } => {
                Entry { kind: Kind::File { size, content, link: 7 }, attributes }
            }
            other => other,
        };
        let site = |value| Map::from([(path("a"), linked(value)), (path("b"), linked(value))]);
        let (older, same, newer) = (root(&chunks, &site(1)), root(&chunks, &site(1)), root(&chunks, &site(2)));
        let added = Change { base: None, own: Some(linked(1)), sent: None, is_local: true };
        let changes = Changes::new(BTreeMap::from([(path("d"), added)]));
        let mut names = |link| Ok(if link == 7 { ["a", "b"].map(path).into() } else { BTreeSet::new() });
        let mut conflicts = |newer| {
            let (changes, _) = changes.at(&chunks, Some(older), newer, Some(older), &mut names).unwrap();
            changes.conflicts.iter().map(Path::to_string).collect::<Vec<_>>()
        };
        assert_eq!((conflicts(same), conflicts(newer)), (vec![], vec!["d".to_owned()]));
    }

    #[test]
    fn a_part_has_new_directories_above_it_and_the_other_names_of_its_files() {
        let linked =
            Entry { kind: Kind::File { size: 0, content: tree::Content::Inline(Bytes::new()), link: 7 }, ..file(1) };
        let change = |base: Option<Entry>, own: Option<Entry>| Change { base, own, sent: None, is_local: true };
        let all = [
            ("d", change(None, Some(directory(0)))),
            ("d/e", change(None, Some(directory(0)))),
            ("d/e/a", change(None, Some(linked.clone()))),
            ("b", change(None, Some(linked))),
            ("x", change(Some(directory(0)), None)),
            ("x/a", change(Some(file(1)), None)),
        ];
        let changes = Changes::new(all.into_iter().map(|(at, change)| (path(at), change)).collect());
        let part = |at, removed| {
            let part = changes.part(&path(at), removed);
            changes.of(&part).map(|(path, _)| path.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(part("d/e/a", false), "b d d/e d/e/a");
        assert_eq!((part("x/a", false), part("x/a", true)), ("x/a".into(), "x x/a".into()));
        assert_eq!(part("none", true), "");
    }
}
