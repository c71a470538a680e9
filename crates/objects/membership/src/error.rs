//! Errors of membership, whose texts name the remedy.

use disk::DiskError;
use etcd::{EtcdError, EtcdUrl};
use std::fmt;
use std::path::PathBuf;
use vfs::FileError;

/// Why a node cannot be a member of its store, or a store cannot be created or read.
#[derive(Debug)]
pub enum MembershipError {
    /// etcd does not answer, or not as expected.
    Etcd(EtcdError),
    /// A file of the directory.
    File(FileError),
    /// There is no store of this name.
    NoStore(EtcdUrl),
    /// There is a store of this name already.
    Exists(EtcdUrl),
    /// The creation of the store was interrupted.
    Incomplete(EtcdUrl),
    /// The creation was asked for with a value that cannot be.
    Config(String),
    /// A key has a value that no node writes.
    Value {
        /// The key.
        key: String,
        /// The value that was expected.
        why: String,
    },
    /// The store has no such node.
    NoSuchNode {
        /// The name.
        node: String,
        /// The names of its nodes.
        nodes: Vec<String>,
    },
    /// The directory is another node's, or of another store.
    OthersDirectory {
        /// The directory.
        dir: PathBuf,
        /// Its owner.
        found: String,
        /// The owner that was expected.
        expected: String,
    },
    /// The directory of a store of one node cannot become a node's.
    From {
        /// The directory.
        dir: PathBuf,
        /// The obstacle.
        why: String,
    },
    /// The directory of a store of one node cannot be opened.
    Open(DiskError),
    /// The node has another directory than this one.
    OtherDirectory {
        /// The directory.
        dir: PathBuf,
        /// The node.
        node: String,
    },
    /// The directory is a copy that was made before the last start of the node.
    OldCopy {
        /// The directory.
        dir: PathBuf,
        /// The node.
        node: String,
        /// The starts that the directory knows.
        known: u64,
        /// The starts that the node has had.
        starts: u64,
    },
    /// Another process runs under the name.
    NameInUse {
        /// The node.
        node: String,
        /// Where it is.
        address: String,
    },
    /// A number in etcd is lower than one that was seen there before.
    WentBack {
        /// The key.
        key: String,
        /// The highest number that was seen.
        seen: u64,
        /// The number in etcd.
        found: u64,
        /// The value that is at least as high.
        raised: String,
    },
}

impl From<EtcdError> for MembershipError {
    fn from(error: EtcdError) -> Self {
        Self::Etcd(error)
    }
}

impl From<DiskError> for MembershipError {
    fn from(error: DiskError) -> Self {
        Self::Open(error)
    }
}

impl From<FileError> for MembershipError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for MembershipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::From { dir, why } => {
                write!(f, "{} cannot become the directory of a node: {why}", dir.display())
            }
            Self::NoStore(url) => write!(
                f,
                "there is no store '{}' in this etcd: check the name, or create the store with \
                 'thorp cluster create {url} --nodes n1,n2,n3'",
                url.name
            ),
            Self::Exists(url) => write!(
                f,
                "the store '{}' exists: choose another name, or look at it with 'thorp cluster status {url}'",
                url.name
            ),
            Self::Incomplete(url) => {
                write!(f, "the creation of store '{}' was interrupted: repeat 'thorp cluster create {url}'", url.name)
            }
            Self::Config(why) => f.write_str(why),
            Self::Value { key, why } => {
                write!(f, "the key {key} in etcd has a value that no node writes: {why}; restore etcd from a backup")
            }
            Self::NoSuchNode { node, nodes } => {
                write!(f, "the store has no node '{node}': expected one of {}", nodes.join(", "))
            }
            Self::OthersDirectory { dir, found, expected } => write!(
                f,
                "{} is the directory of {found}, not of {expected}: name the directory of {expected}",
                dir.display()
            ),
            Self::OtherDirectory { dir, node } => write!(
                f,
                "{} is not the directory of node '{node}', which has another: name the other directory",
                dir.display()
            ),
            Self::OldCopy { dir, node, known, starts } => write!(
                f,
                "{} is an old copy of the directory of node '{node}': it knows {known} starts of the node, which has \
                 had {starts}; name the directory that the node had last",
                dir.display()
            ),
            Self::NameInUse { node, address } => write!(
                f,
                "another process runs as node '{node}' at {address}: stop it, or start this one under another name"
            ),
            Self::WentBack { key, seen, found, raised } => write!(
                f,
                "etcd was restored to an older state: {key} is {found}, and was {seen} before; stop all nodes, raise \
                 it with `etcdctl put {key} '{raised}'`, and start them"
            ),
        }
    }
}

impl std::error::Error for MembershipError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Etcd(error) => Some(error),
            Self::File(error) => Some(error),
            Self::Open(error) => Some(error),
            _ => None,
        }
    }
}
