//! The inodes that the kernel knows.
//!
//! A number is a hash: for a directory of its path; for a file or link of its path, content and attributes. Where a
//! file has several names, the number of its links stands for the path. Two inodes whose hashes begin alike get two
//! numbers, as the whole hashes are compared.
//!
//! A file or directory that this mount changes keeps its number, although its path or content no longer hashes to it.
//! A removed inode also keeps its number for as long as the kernel knows it.

use blake3::Hasher;
use spread::Number;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tree::{ChunkHash, Entry, Kind, Name, Time, encode_entry};

/// The numbers of the inodes that no site has.
pub(super) const ROOT: u64 = 1;
pub(super) const THORP: u64 = 2;
pub(super) const AT: u64 = 3;
pub(super) const STATUS: u64 = 4;
pub(super) const NEWEST: u64 = 5;
pub(super) const PUBLISH: u64 = 6;

/// The numbers below this one are none of hashes.
const FIRST: u64 = 256;

/// The inodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: HashMap<u64, Node>,
    /// The numbers of those that have kept theirs through a change.
    kept: HashMap<Identity, u64>,
    /// How many identities were made that no entry has.
    made: u64,
}

/// An inode that the kernel knows.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    identity: Identity,
    /// How often the kernel was given it, less how often it has forgotten it.
    lookups: u64,
    /// The last revision that was found to have it here.
    pub(super) seen_in: Number,
    /// The topmost node of a directory in a revision.
    pub(super) directory: Option<(Number, ChunkHash)>,
    /// The changes by this mount that no revision shows.
    pub(super) own: Own,
}

/// The changes by this mount that the entry of an inode does not show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// Whether this mount has made it what it is: then the kernel needs not be told.
    pub(super) is_changed: bool,
    /// Whether this mount has removed it.
    pub(super) is_removed: bool,
    /// The time of the last change of the inode, behind the content time that it goes with.
    pub(super) changed: Option<(Time, Time)>,
    /// The time of the last access that was set.
    pub(super) accessed: Option<Time>,
    /// When a name in a directory was changed that is not published yet.
    pub(super) touched: Option<Time>,
}

/// The place of an inode.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The root of a revision, below `.thorp/at`.
    Revision(Number),
    /// An entry in a directory.
    In { directory: u64, name: Name, entry: Entry },
}

/// The top of a path: where its revision is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Top {
    /// The newest revision.
    Newest,
    /// This revision.
    At(Number),
}

/// A directory's path: its top, and the directories below it with their names, from above.
#[derive(Clone, Debug)]
pub(super) struct DirectoryPath {
    pub(super) top: Top,
    pub(super) below: Vec<(u64, Name)>,
}

/// The hash of what an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity([u8; 16]);

impl Identity {
    fn of_revision(number: Number) -> Self {
        Self::of(&[b"revision", &number.life.to_le_bytes(), &number.count.to_le_bytes()])
    }

    fn of_entry(top: Top, directory: u64, name: &Name, entry: &Entry) -> Self {
        match &entry.kind {
            Kind::Directory(_) => Self::of_directory(directory, name),
            Kind::File { link, .. } if *link > 0 => {
                // All names of the file, with the name that each has left out.
                let top = Nodes::top(top).to_le_bytes();
                Self::of(&[b"file of links", &top, &encoded(&nameless(), entry)])
            }
            Kind::File { .. } | Kind::Symlink(_) => {
                Self::of(&[b"entry", &directory.to_le_bytes(), &encoded(name, entry)])
            }
        }
    }

    /// The identity of what no entry is.
    fn of_none(count: u64) -> Self {
        Self::of(&[b"none", &count.to_le_bytes()])
    }

    fn of_directory(above: u64, name: &Name) -> Self {
        Self::of(&[b"directory", &above.to_le_bytes(), name.as_bytes()])
    }

    fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(hash)
    }

    /// The number that an inode has if no other one has it: a positive one of 64 bits.
    fn number(self) -> u64 {
        let mut low = [0; 8];
        low.copy_from_slice(&self.0[..8]);
        (u64::from_le_bytes(low) >> 1).max(FIRST)
    }
}

fn encoded(name: &Name, entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_entry(&mut bytes, name, entry);
    bytes
}

/// A name for what has several.
fn nameless() -> Name {
    Name::new(b"-").expect("it is a name")
}

impl Nodes {
    /// The root of the revision with this number, which the kernel is given.
    pub(super) fn enter_revision(&mut self, number: Number) -> u64 {
        self.enter_place(Identity::of_revision(number), Place::Revision(number), number)
    }

    /// An entry in a directory of a revision, which the kernel is given.
    pub(super) fn enter(&mut self, number: Number, directory: u64, name: Name, entry: Entry) -> Option<u64> {
        let identity = Identity::of_entry(self.top_of(directory)?, directory, &name, &entry);
        Some(self.enter_place(identity, Place::In { directory, name, entry }, number))
    }

    fn enter_place(&mut self, identity: Identity, place: Place, seen_in: Number) -> u64 {
        let number = self.number_of(identity);
        let own = Own::default();
        let node = self.all.entry(number);
        let node = node.or_insert(Node { place: place.clone(), identity, lookups: 0, seen_in, directory: None, own });
        (node.place, node.seen_in, node.lookups) = (place, seen_in, node.lookups + 1);
        number
    }

    /// The number that an entry in a directory has, or would have.
    pub(super) fn number(&self, directory: u64, name: &Name, entry: &Entry) -> Option<u64> {
        Some(self.number_of(Identity::of_entry(self.top_of(directory)?, directory, name, entry)))
    }

    /// The number that the root of a revision has, or would have.
    pub(super) fn number_of_revision(&self, number: Number) -> u64 {
        self.number_of(Identity::of_revision(number))
    }

    fn number_of(&self, identity: Identity) -> u64 {
        if let Some(kept) = self.kept.get(&identity) {
            return *kept;
        }
        let mut number = identity.number();
        while self.all.get(&number).is_some_and(|node| node.identity != identity) {
            number += 1;
        }
        number
    }

    /// The kernel has forgotten an inode as often as this.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.all.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                let identity = node.identity;
                self.all.remove(&number);
                self.let_go(number, identity);
            }
        }
    }

    /// A new inode that no revision has, which the kernel is given.
    pub(super) fn enter_new(&mut self, seen_in: Number, directory: u64, name: Name, entry: Entry) -> u64 {
        let identity = self.make();
        let number = self.enter_place(identity, Place::In { directory, name, entry }, seen_in);
        self.change(number);
        number
    }

    /// This mount has made an inode the entry at a place, and keeps its number.
    pub(super) fn keep(&mut self, number: u64, seen_in: Number, directory: u64, name: Name, entry: Entry) {
        let Some(top) = self.top_of(directory) else { return };
        let identity = Identity::of_entry(top, directory, &name, &entry);
        let Some(node) = self.all.get_mut(&number) else { return };
        let before = node.identity;
        (node.place, node.identity, node.seen_in) = (Place::In { directory, name, entry }, identity, seen_in);
        node.own.is_changed = true;
        self.let_go(number, before);
        self.kept.insert(identity, number);
    }

    /// This mount has removed an inode. A new entry at its place gets a different number.
    pub(super) fn remove(&mut self, number: u64) {
        let identity = self.make();
        let Some(node) = self.all.get_mut(&number) else { return };
        let before = node.identity;
        (node.identity, node.own.is_removed) = (identity, true);
        self.let_go(number, before);
        self.change(number);
    }

    /// A file that no revision has is at another place now.
    pub(super) fn move_new(&mut self, number: u64, seen_in: Number, directory: u64, name: Name) {
        if let Some(node) = self.all.get_mut(&number)
            && let Place::In { entry, .. } = &node.place
        {
            (node.place, node.seen_in) = (Place::In { directory, name, entry: entry.clone() }, seen_in);
        }
        self.change(number);
    }

    /// An inode is needed once more: the kernel is given it, or a file is being written.
    pub(super) fn given_again(&mut self, number: u64) {
        if let Some(node) = self.all.get_mut(&number) {
            node.lookups += 1;
        }
    }

    /// The time of the last access is set.
    pub(super) fn set_accessed(&mut self, number: u64, at: Time) {
        if let Some(node) = self.all.get_mut(&number) {
            node.own.accessed = Some(at);
        }
    }

    /// Notes when a name in a directory was changed that is not published yet; none once it is.
    pub(super) fn touch(&mut self, directory: u64, at: Option<Time>) {
        if let Some(node) = self.all.get_mut(&directory) {
            node.own.touched = at;
        }
    }

    /// Whether this mount has made the inode of an entry what it is, at a name.
    pub(super) fn is_own(&self, directory: u64, name: &Name, entry: &Entry) -> bool {
        let node = self.number(directory, name, entry).and_then(|number| self.all.get(&number));
        let is_there = |place: &Place| match place {
            Place::In { directory: of, name: at, .. } => *of == directory && at == name,
            Place::Revision(_) => false,
        };
        node.is_some_and(|node| node.own.is_changed && is_there(&node.place))
    }

    /// Notes that this mount has changed an inode now.
    pub(super) fn change(&mut self, number: u64) {
        if let Some(node) = self.all.get_mut(&number) {
            let modified = match &node.place {
                Place::In { entry, .. } => entry.attributes.modified,
                Place::Revision(_) => Time::default(),
            };
            node.own = Own { is_changed: true, changed: Some((now(), modified)), touched: None, ..node.own };
        }
    }

    fn make(&mut self) -> Identity {
        self.made += 1;
        Identity::of_none(self.made)
    }

    fn let_go(&mut self, number: u64, identity: Identity) {
        if self.kept.get(&identity) == Some(&number) {
            self.kept.remove(&identity);
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Node> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.all.get_mut(&number)
    }

    /// The directory at a path of the newest revision, if the kernel may have names in it.
    pub(super) fn find(&self, path: &[Name]) -> Option<u64> {
        path.iter().try_fold(ROOT, |directory, name| {
            let number = self.number_of(Identity::of_directory(directory, name));
            self.all.contains_key(&number).then_some(number)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The entries of the newest revision that the kernel knows, by directory and name.
    pub(super) fn names(&self) -> Vec<(u64, Name)> {
        let place = |node: &Node| match &node.place {
            Place::In { directory, name, .. } => Some((*directory, name.clone())),
            Place::Revision(_) => None,
        };
        self.all
            .values()
            .filter_map(place)
            .filter(|(directory, _)| self.top_of(*directory) == Some(Top::Newest))
            .collect()
    }

    /// The path of a directory; none for one that the kernel has forgotten, or whose own directory it has.
    pub(super) fn path(&self, directory: u64) -> Option<DirectoryPath> {
        let (mut at, mut below) = (directory, Vec::new());
        let top = loop {
            if at == ROOT {
                break Top::Newest;
            }
            let node = self.all.get(&at).filter(|node| !node.own.is_removed)?;
            match &node.place {
                Place::Revision(number) => break Top::At(*number),
                Place::In { directory, name, .. } => {
                    below.push((at, name.clone()));
                    at = *directory;
                }
            }
        };
        below.reverse();
        Some(DirectoryPath { top, below })
    }

    /// The directory above one.
    pub(super) fn above(&self, directory: u64) -> u64 {
        match self.all.get(&directory).map(|node| &node.place) {
            Some(Place::In { directory, .. }) => *directory,
            Some(Place::Revision(_)) => AT,
            None => ROOT,
        }
    }

    /// The top above a directory.
    fn top_of(&self, directory: u64) -> Option<Top> {
        let mut at = directory;
        while at != ROOT {
            match &self.all.get(&at)?.place {
                Place::Revision(number) => return Some(Top::At(*number)),
                Place::In { directory, .. } => at = *directory,
            }
        }
        Some(Top::Newest)
    }

    /// The inode of a top.
    fn top(top: Top) -> u64 {
        match top {
            Top::Newest => ROOT,
            Top::At(number) => Identity::of_revision(number).number(),
        }
    }
}

/// The time by the system's clock.
pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tree::{Attributes, Content};

    const SEVEN: Number = Number { life: 1, count: 7 };

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    fn file(text: &'static str, link: u64) -> Entry {
        let content = Content::Inline(Bytes::from_static(text.as_bytes()));
        Entry { kind: Kind::File { size: text.len() as u64, content, link }, attributes: Attributes::default() }
    }

    fn directory(of: &str) -> Entry {
        Entry { kind: Kind::Directory(ChunkHash::of(of.as_bytes())), attributes: Attributes::default() }
    }

    #[test]
    fn an_inode_is_a_path_with_one_content() {
        let mut nodes = Nodes::default();
        let one = nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        assert_eq!(nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)), Some(one));
        let others = [
            nodes.enter(SEVEN, ROOT, name("a"), file("y", 0)),
            nodes.enter(SEVEN, ROOT, name("b"), file("x", 0)),
            nodes.enter(SEVEN, ROOT, name("a"), directory("x")),
        ];
        assert!(others.iter().all(|other| *other != Some(one)), "{others:?}");
        // Hard links are one inode, and a directory is one whatever it has.
        let linked = nodes.enter(SEVEN, ROOT, name("c"), file("x", 5));
        assert_eq!(nodes.enter(SEVEN, ROOT, name("d"), file("x", 5)), linked);
        let directories = ["x", "y"].map(|of| nodes.enter(SEVEN, ROOT, name("e"), directory(of)));
        assert_eq!(directories[0], directories[1]);
        // Below `.thorp/at` it is a different inode.
        let root = nodes.enter_revision(SEVEN);
        assert_ne!(nodes.enter(SEVEN, root, name("a"), file("x", 0)), Some(one));
    }

    #[test]
    fn an_inode_is_forgotten_as_often_as_it_was_given() {
        let mut nodes = Nodes::default();
        let one = nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        nodes.forget(one, 1);
        assert!(nodes.get(one).is_some());
        nodes.forget(one, 5);
        assert!(nodes.get(one).is_none());
        nodes.forget(one, 1);
    }

    #[test]
    fn an_inode_keeps_its_number_through_changes_of_this_mount() {
        let mut nodes = Nodes::default();
        let one = nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        nodes.keep(one, SEVEN, ROOT, name("b"), file("y", 0));
        assert_eq!(nodes.number(ROOT, &name("b"), &file("y", 0)), Some(one));
        assert_ne!(nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)), Some(one), "it is another one there");
        nodes.remove(one);
        assert_ne!(nodes.enter(SEVEN, ROOT, name("b"), file("y", 0)), Some(one), "it is another one in its place");
        nodes.forget(one, 1);
        assert!(nodes.get(one).is_none());
        // A removed directory has no path, and a new directory of its name gets a different number.
        let directory_before = nodes.enter(SEVEN, ROOT, name("d"), directory("x")).unwrap();
        nodes.remove(directory_before);
        assert!(nodes.path(directory_before).is_none());
        assert_ne!(nodes.enter(SEVEN, ROOT, name("d"), directory("x")), Some(directory_before));
        // A renamed directory keeps the numbers of its entries.
        let above = nodes.enter(SEVEN, ROOT, name("e"), directory("x")).unwrap();
        let below = nodes.enter(SEVEN, above, name("f"), file("x", 0)).unwrap();
        nodes.keep(above, SEVEN, ROOT, name("g"), directory("x"));
        assert_eq!(nodes.number(above, &name("f"), &file("x", 0)), Some(below));
        assert_eq!(nodes.find(&[name("g")]), Some(above));
        assert_eq!(nodes.kept.len(), 1);
    }

    #[test]
    fn inodes_of_one_hash_have_two_numbers() {
        let mut nodes = Nodes::default();
        let one = nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        // As if the hash of another entry began like that.
        nodes.get_mut(one).unwrap().identity.0[15] ^= 1;
        let other = nodes.enter(SEVEN, ROOT, name("a"), file("x", 0)).unwrap();
        assert_eq!(other, one + 1);
        assert_eq!(nodes.number(ROOT, &name("a"), &file("x", 0)), Some(other));
    }

    #[test]
    fn a_directory_has_a_path_while_the_kernel_knows_those_above() {
        let mut nodes = Nodes::default();
        let above = nodes.enter(SEVEN, ROOT, name("a"), directory("x")).unwrap();
        let below = nodes.enter(SEVEN, above, name("b"), directory("y")).unwrap();
        let path = nodes.path(below).unwrap();
        assert_eq!((path.top, path.below), (Top::Newest, vec![(above, name("a")), (below, name("b"))]));
        nodes.forget(above, 1);
        assert!(nodes.path(below).is_none());
        assert_eq!(nodes.enter(SEVEN, below, name("c"), file("x", 0)), None);
    }
}
