//! The directory of a store of one node becomes that of the first node of a store of several.
//!
//! ```text
//!   everything written back --> bound to the node, before its first start --> etcd: members, placement
//! ```
//! 1. All shards begin at that node, each as if it had been closed in order at the last count of the one shard before:
//!    nothing in the log is needed, and the counts of a sequencer are above it.
//! 2. The store keeps its identity. Its clients know how many shards it has, and end when they find another number:
//!    their caches begin empty.
//! 3. The identity of the directory is the store's: two that bind it at a time bind it alike.
//! 4. After it was bound, only the node opens the directory. A creation that was interrupted then is begun again.

use crate::MembershipError;
use crate::binding::Binding;
use crate::records::Drawn;
use database::Recovered;
use disk::Progress;
use net::Runtime;
use std::path::Path;
use store::Record;
use types::{ClusterId, Shard, Version};

/// The settings with which the directory is opened as what it is.
fn as_store() -> disk::Config {
    disk::Config { create: false, ..disk::Config::default() }
}

/// A directory that is bound to the first node of a store which is created.
pub(crate) struct Adopted {
    pub(crate) store: Drawn,
    pub(crate) directory: Drawn,
    /// The count at which every shard begins.
    pub(crate) count: Version,
}

/// Writes everything back in the directory of a store of one node. `on_progress` hears how much of its log was read.
///
/// # Errors
/// There is no store in it, or it is in use or cannot be written.
pub fn write_back(dir: &Path, runtime: &Runtime, on_progress: impl FnMut(&Progress)) -> Result<(), MembershipError> {
    if Binding::read(dir)?.is_some() {
        // `Adopted::bind` finds out whether it can become this node's.
        return Ok(());
    }
    let store = Recovered::read(dir, &as_store(), store::Config::default(), on_progress)?.start(None, runtime);
    store.close().map_err(|error| MembershipError::From { dir: dir.to_owned(), why: error.to_string() })
}

impl Adopted {
    /// Binds a directory in which everything is written back to a node.
    pub(crate) fn bind(dir: &Path, node: &str) -> Result<Self, MembershipError> {
        let refuse = |why: &str| MembershipError::From { dir: dir.to_owned(), why: why.to_owned() };
        let known = Binding::read(dir)?;
        let cluster = known.as_ref().map(|known| ClusterId(known.store().0));
        // Keeps writers out until it is bound.
        let mut opening = disk::open(dir, &disk::Config { cluster, read_only: true, ..as_store() })?;
        let (store, checkpoint) = (Drawn(opening.opened().cluster.0), opening.opened().checkpoint.clone());
        if !checkpoint.aside.is_empty() {
            return Err(refuse(
                "it has damaged pages: copy out what is whole with 'thorp doctor --salvage', and name the copy",
            ));
        }
        while let Some((_, record)) = opening.next_record()? {
            let is_back = match &record {
                Record::Commit(commit) => checkpoint.applied.reaches(&commit.counts),
                Record::Uncounted(_) => false,
                Record::Incarnation { .. } | Record::Grant { .. } | Record::Counts(_) => true,
            };
            if !is_back {
                return Err(refuse("it was opened in the meantime: stop what uses it, and try again"));
            }
        }
        let binding = match known {
            Some(known) if known.is_before_first_start(store, node) => known,
            Some(_) => return Err(refuse("it is the directory of a node of a store of several already")),
            None => {
                let binding = Binding::before_first_start(store, node);
                binding.write(dir)?;
                binding
            }
        };
        Ok(Self { store, directory: binding.directory(), count: checkpoint.applied.of(Shard::ONLY) })
    }
}
