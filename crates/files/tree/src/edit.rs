//! An edit of a tree, and its bytes in a list of edits.
//!
//! ```text
//!   edit       kind u8   shared u8   count u8   name * count   rest
//!   rest of 0  set        name, entry                             as in a node
//!   rest of 1  directory  name, attributes                        as in a node
//!   rest of 2  remove     name
//!   name       bytes u8, the bytes
//! ```
//! A path is the first `shared` names of the path before, as many as both have in common, then `count` names, then the
//! name of the rest.

use crate::entry::{Attributes, Entry};
use crate::fields::{decode_entry, encode_entry, get, get_attributes, get_name, put_attributes, put_name};
use crate::name::Path;
use crate::source::Malformed;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};

const SET: u8 = 0;
const DIRECTORY: u8 = 1;
const REMOVE: u8 = 2;

/// A change at a path, which is never the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The entry at a path becomes this file or symbolic link, whatever was there before.
    Set(Path, Entry),
    /// The path becomes a directory with these attributes. An older directory keeps its entries; anything else is
    /// replaced by an empty directory.
    Directory(Path, Attributes),
    /// The entry and everything below it are removed, if it is there.
    Remove(Path),
}

impl Edit {
    /// Returns the path that is changed.
    pub fn path(&self) -> &Path {
        match self {
            Self::Set(path, _) | Self::Directory(path, _) | Self::Remove(path) => path,
        }
    }
}

/// Writes an edit whose path has its first `shared` names from the one before.
pub(crate) fn put_edit(out: &mut Vec<u8>, shared: usize, edit: &Edit) {
    let Some((name, above)) = edit.path().names().split_last() else { return };
    let above = above.get(shared..).unwrap_or_default();
    let kind = match edit {
        Edit::Set(..) => SET,
        Edit::Directory(..) => DIRECTORY,
        Edit::Remove(_) => REMOVE,
    };
    out.put_slice(&[kind, shared as u8, above.len() as u8]);
    for name in above {
        put_name(out, name);
    }
    match edit {
        Edit::Set(_, entry) => encode_entry(out, name, entry),
        Edit::Directory(_, attributes) => {
            put_name(out, name);
            put_attributes(out, attributes);
        }
        Edit::Remove(_) => put_name(out, name),
    }
}

/// Reads an edit behind another one.
pub(crate) fn get_edit(from: &mut Bytes, last: Option<&Edit>) -> Result<Edit, Malformed> {
    let mut head = get(from, 3)?;
    let (kind, shared, count) = (head.get_u8(), usize::from(head.get_u8()), head.get_u8());
    let before = last.map_or(&[][..], |last| last.path().names());
    let Some(shared) = before.get(..shared) else {
        return Err(Malformed("a path that shares more than there is"));
    };
    let mut path = Path::ROOT;
    for name in shared {
        path.push(name.clone());
    }
    for _ in 0..count {
        path.push(get_name(from)?);
    }
    match kind {
        SET => {
            let (name, entry) = decode_entry(from)?;
            path.push(name);
            Ok(Edit::Set(path, entry))
        }
        DIRECTORY => {
            path.push(get_name(from)?);
            Ok(Edit::Directory(path, get_attributes(from)?))
        }
        REMOVE => {
            path.push(get_name(from)?);
            Ok(Edit::Remove(path))
        }
        _ => Err(Malformed("an edit of an unknown kind")),
    }
}
