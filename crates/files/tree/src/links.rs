//! Hard links in a merge: names that share a file on one side still share one file in the merged tree.
//!
//! Each side alone is right, so links can only come apart where both sides have changed names of one file: one of them
//! has added a name, or changed the file through its names, and the other one has changed the file or a name of it. A
//! name that is removed, or is no file any longer, does no harm to the others.

use crate::entry::{Attributes, Entry, Kind, Time};
use crate::fields::{put_attributes, put_kind};
use crate::hash::ChunkHash;
use crate::name::Path;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The names of hard-linked files that one side alone has changed, by the numbers of the files.
#[derive(Default)]
pub(crate) struct Links {
    /// Files that have new or changed names: the content and attributes that they have there, and the first such name.
    linked: BTreeMap<u64, (ChunkHash, Path)>,
    /// Files whose names in the base are another file now, or a changed one, and the first such name.
    left: BTreeMap<u64, Path>,
}

impl Links {
    /// Records that the side has changed the entry at a path.
    pub(crate) fn changed(&mut self, path: &Path, before: Option<&Entry>, after: Option<&Entry>) {
        let Some(after) = after.filter(|after| !before.is_some_and(|before| before.is_same_but_for_time(after))) else {
            return;
        };
        let is_file = matches!(after.kind, Kind::File { .. });
        if let Some(link) = before.and_then(number).filter(|_| is_file) {
            self.left.entry(link).or_insert_with(|| path.clone());
        }
        if let Some(link) = number(after) {
            self.linked.entry(link).or_insert_with(|| (timeless(after), path.clone()));
        }
    }

    /// Returns the names that these changes, of the one side, cannot have beside those of the other one.
    pub(crate) fn conflicts_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Path> {
        let differs = |link: &u64, file: &ChunkHash| other.linked.get(link).is_some_and(|(other, _)| other != file);
        let linked = self.linked.iter();
        let linked = linked.filter(move |(link, (file, _))| other.left.contains_key(link) || differs(link, file));
        let left = self.left.iter().filter(|(link, _)| other.linked.contains_key(link));
        linked.map(|(_, (_, path))| path).chain(left.map(|(_, path)| path))
    }
}

/// The number of a hard-linked file.
fn number(entry: &Entry) -> Option<u64> {
    match entry.kind {
        Kind::File { link, .. } if link > 0 => Some(link),
        _ => None,
    }
}

/// A name for the content and the attributes of a file. Its time is not among them: a name that is not new keeps the
/// time of the older tree.
fn timeless(entry: &Entry) -> ChunkHash {
    let mut bytes = Vec::new();
    put_attributes(&mut bytes, &Attributes { modified: Time::default(), ..entry.attributes.clone() });
    put_kind(&mut bytes, &entry.kind);
    ChunkHash::of(&bytes)
}
