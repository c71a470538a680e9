//! Which directory is which node's: a small file in the directory, and `members/NODE` in etcd.
//!
//! ```text
//!   start   directory: the start that is about to be   etcd: the start, with the lease of the run
//!     |     `start` = 7, durable  -------------------> `start` = 7, the directory's identity
//!     |
//!   directory 7, etcd 7     both know it
//!   directory 7, etcd 6     the process ended in between: start 7 is tried again
//!   directory 5, etcd 7     a copy of the directory, made before the last start: it lacks commits
//!   directory 7, etcd 5     etcd was restored to an older state
//! ```

use crate::MembershipError;
use crate::follow::check_epoch;
use crate::keys::{Key, Keys};
use crate::records::{Drawn, MemberRecord, parse, text};
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use vfs::{Directory, Doing, FileError, Files, random, read_small, replace_small};

/// The file's name.
const NAME: &str = disk::NODE_FILE;
const BYTES_MAX: u64 = 4096;

/// The file of a directory that is a node's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    store: Drawn,
    node: String,
    /// The directory's identity.
    directory: Drawn,
    /// The last run that it has had, or was about to.
    start: u64,
    /// The highest epoch that was seen.
    epoch: u32,
}

impl Binding {
    /// Reads the file of a directory; `None` if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, FileError> {
        let files = Directory::new(dir);
        let path = || files.path(NAME);
        let bytes = match read_small(&files, NAME, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("read", path),
        };
        let corrupt = |what| FileError::Corrupt { file: path(), offset: 0, what };
        parse(&String::from_utf8_lossy(&bytes)).map(Some).map_err(corrupt)
    }

    /// Puts it into its directory, durably.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), FileError> {
        let files = Directory::new(dir);
        replace_small(&files, NAME, text(self).as_bytes()).doing("write", || files.path(NAME))
    }

    /// The file of a directory that is a node's before its first start, and was a store of one node.
    pub(crate) fn before_first_start(store: Drawn, node: &str) -> Self {
        Self { store, node: node.to_owned(), directory: store, start: 0, epoch: 0 }
    }

    /// Whether it is such a file, of this node.
    pub(crate) fn is_before_first_start(&self, store: Drawn, node: &str) -> bool {
        *self == Self::before_first_start(store, node)
    }

    /// The name of the node whose directory it is.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The store's identity.
    pub(crate) fn store(&self) -> Drawn {
        self.store
    }

    /// The directory's identity.
    pub(crate) fn directory(&self) -> Drawn {
        self.directory
    }

    /// The highest epoch that was seen.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the file once this epoch has been seen.
    pub(crate) fn seen(&self, epoch: u32) -> Self {
        Self { epoch: self.epoch.max(epoch), ..self.clone() }
    }

    /// The record in etcd once the start is made.
    pub(crate) fn member(&self, number: u16) -> MemberRecord {
        MemberRecord { number, directory: Some(self.directory), start: self.start }
    }

    /// The file for the next start of a node.
    ///
    /// # Errors
    /// The directory is not the node's, or not as the node had it last.
    pub(crate) fn next(
        found: Option<&Self>,
        keys: &Keys,
        view: &View,
        node: &str,
        dir: &Path,
    ) -> Result<Self, MembershipError> {
        let member = view.member(node)?;
        let others = |found: String| {
            let (dir, expected) = (dir.to_owned(), format!("node '{node}' of store {:?}", view.store()));
            MembershipError::OthersDirectory { dir, found, expected }
        };
        let other = || MembershipError::OtherDirectory { dir: dir.to_owned(), node: node.to_owned() };
        let store = view.config.value.store;
        let Some(found) = found else {
            if member.directory.is_some() {
                return Err(other());
            }
            let directory = Drawn(random()?);
            return Ok(Self { store, node: node.to_owned(), directory, start: 1, epoch: 0 });
        };
        if (found.store, &*found.node) != (store, node) {
            return Err(others(format!("node '{}' of store {:?}", found.node, types::ClusterId(found.store.0))));
        }
        if member.directory.is_some_and(|directory| directory != found.directory) {
            return Err(other());
        }
        if found.start < member.start {
            let (dir, node) = (dir.to_owned(), node.to_owned());
            return Err(MembershipError::OldCopy { dir, node, known: found.start, starts: member.start });
        }
        if found.start > member.start + 1 {
            let (key, raised) = (keys.of(Key::Member(node)), text(&found.member(member.number)));
            return Err(MembershipError::WentBack { key, seen: found.start, found: member.start, raised });
        }
        check_epoch(keys, found.epoch, view)?;
        Ok(Self { start: member.start + 1, ..found.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{entry, keys, view};

    fn next(found: Option<&Binding>, start: u64, directory: &str) -> Result<Binding, String> {
        let member = entry(Key::Member("n1"), &format!(r#"{{"number":0,"directory":{directory},"start":{start}}}"#));
        let view = view(&[member, entry(Key::Epoch, "4")]);
        Binding::next(found, &keys(), &view, "n1", Path::new("D")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_directory_is_a_nodes_from_its_first_start_on() {
        let first = next(None, 0, "null").unwrap();
        assert_eq!((first.start, &*first.node, first.epoch), (1, "n1", 0));
        let id = text(&first.directory);
        assert_eq!(next(Some(&first), 0, "null"), Ok(first.clone()), "the first start was interrupted");
        let second = next(Some(&first), 1, &id).unwrap();
        assert_eq!(second, Binding { start: 2, ..first.clone() });
        assert_eq!(next(Some(&second), 1, &id), Ok(second.clone()), "the second was");
        let epoch_seen = second.seen(5);
        for (refused, why) in [
            (next(None, 1, &id), "is not the directory of node 'n1'"),
            (next(Some(&first), 1, r#""00000000000000dd""#), "is not the directory of node 'n1'"),
            (next(Some(&first), 2, &id), "it knows 1 starts of the node, which has had 2"),
            (next(Some(&second), 0, "null"), "etcd was restored to an older state: /thorp/main/members/n1"),
            (next(Some(&epoch_seen), 2, &id), "etcd was restored to an older state: /thorp/main/epoch"),
            (next(Some(&Binding { node: "n2".into(), ..first.clone() }), 1, &id), "is the directory of node 'n2'"),
            (next(Some(&Binding { store: Drawn(1), ..first }), 1, &id), "of store 0000000000000001"),
        ] {
            assert!(refused.as_ref().unwrap_err().contains(why), "{why}: {refused:?}");
        }
    }
}
