//! The inodes that the kernel knows.
//!
//! A number is a hash: for a directory of its path; for a file or link of its path, content and attributes. Where a
//! file has several names, the number of its links stands for the path. Two inodes whose hashes begin alike get two
//! numbers, as the whole hashes are compared.

use blake3::Hasher;
use spread::Number;
use std::collections::HashMap;
use tree::{ChunkHash, Entry, Kind, Name, encode_entry};

/// The numbers of the inodes that no site has.
pub(super) const ROOT: u64 = 1;
pub(super) const THORP: u64 = 2;
pub(super) const AT: u64 = 3;
pub(super) const STATUS: u64 = 4;
pub(super) const NEWEST: u64 = 5;

/// The numbers below this one are none of hashes.
const FIRST: u64 = 256;

/// The inodes.
#[derive(Debug, Default)]
pub(super) struct Nodes(HashMap<u64, Node>);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let node = self.0.entry(number);
        let node = node.or_insert(Node { place: place.clone(), identity, lookups: 0, seen_in, directory: None });
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
        let mut number = identity.number();
        while self.0.get(&number).is_some_and(|node| node.identity != identity) {
            number += 1;
        }
        number
    }

    /// The kernel has forgotten an inode as often as this.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.0.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                self.0.remove(&number);
            }
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Node> {
        self.0.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.0.get_mut(&number)
    }

    /// The directory at a path of the newest revision, if the kernel may have names in it.
    pub(super) fn find(&self, path: &[Name]) -> Option<u64> {
        path.iter().try_fold(ROOT, |directory, name| {
            let number = self.number_of(Identity::of_directory(directory, name));
            self.0.contains_key(&number).then_some(number)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries of the newest revision that the kernel knows, by directory and name.
    pub(super) fn names(&self) -> Vec<(u64, Name)> {
        let place = |node: &Node| match &node.place {
            Place::In { directory, name, .. } => Some((*directory, name.clone())),
            Place::Revision(_) => None,
        };
        self.0
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
            match &self.0.get(&at)?.place {
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
        match self.0.get(&directory).map(|node| &node.place) {
            Some(Place::In { directory, .. }) => *directory,
            Some(Place::Revision(_)) => AT,
            None => ROOT,
        }
    }

    /// The top above a directory.
    fn top_of(&self, directory: u64) -> Option<Top> {
        let mut at = directory;
        while at != ROOT {
            match &self.0.get(&at)?.place {
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
