//! A store in etcd: created once, and read.
//!
//! ```text
//!   config, not complete --> members, placement: in parts, while config is as it was written --> config, complete
//! ```
//! The transactions of etcd are too small for a store of many shards. A creation that was interrupted is begun again.

use crate::MembershipError;
use crate::adopt::Adopted;
use crate::keys::{Key, Keys};
use crate::records::{ConfigRecord, Drawn, LeasedSpaces, MemberRecord, PlacementRecord, text};
use crate::view::{Kept, LEASE_S, View, as_seen, is_name};
use etcd::{Compare, Etcd, EtcdUrl, Operation};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use types::limits::{LEASED_SPACES_MAX, NODES_MAX, SHARDS_MAX};
use types::{ClusterId, Shard};
use vfs::random;

/// Keys that are written in one transaction of a creation.
const KEYS_PER_TRANSACTION: usize = 100;

/// A store in etcd.
#[derive(Debug)]
pub struct Cluster {
    url: EtcdUrl,
    pub(crate) keys: Keys,
    pub(crate) etcd: Etcd,
}

/// A store that is created.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// The names of its nodes, which have their numbers in this order.
    pub nodes: Vec<String>,
    /// The number of shards, for good.
    pub shards: u16,
    /// The pages that stay together in a shard, for good.
    pub extent: u32,
    /// How long a node may serve without having reached etcd.
    pub lease: Duration,
    /// The leased spaces, for good.
    pub leased: Option<LeasedSpaces>,
    /// The directory of a store of one node, in which everything is written back ([`write_back`](crate::write_back)):
    /// it becomes that of the first node, which has all shards. Without one the store is empty.
    pub from: Option<PathBuf>,
}

impl Cluster {
    /// The store at this address. Each endpoint of etcd has the time `within` for an answer. Nothing is read yet.
    pub fn new(url: &EtcdUrl, within: Duration) -> Result<Self, MembershipError> {
        let etcd = Etcd::new(&url.endpoints, within)?;
        Ok(Self { url: url.clone(), keys: Keys::new(&url.name), etcd })
    }

    /// Its address.
    pub fn url(&self) -> &EtcdUrl {
        &self.url
    }

    /// Reads all keys of the store.
    ///
    /// # Errors
    /// There is no store, or it was not created to the end.
    pub fn view(&self) -> Result<View, MembershipError> {
        match self.read()? {
            Some(view) if view.config.value.is_complete => Ok(view),
            Some(_) => Err(MembershipError::Incomplete(self.url.clone())),
            None => Err(MembershipError::NoStore(self.url.clone())),
        }
    }

    fn read(&self) -> Result<Option<View>, MembershipError> {
        View::parse(&self.keys, &self.etcd.read(self.keys.prefix())?)
    }

    /// Creates the store, with its shards placed on the nodes in turn, or on the first if that brings them.
    ///
    /// # Errors
    /// It exists, a value cannot be, or the directory cannot become the first node's.
    pub fn create(&self, new: &NewStore) -> Result<ClusterId, MembershipError> {
        new.check()?;
        let exists = || MembershipError::Exists(self.url.clone());
        let found = self.read()?.map(|view| view.config);
        if found.as_ref().is_some_and(|config| config.value.is_complete) {
            return Err(exists());
        }
        let adopted = new.from.as_ref().map(|dir| Adopted::bind(dir, &new.nodes[0])).transpose()?;
        let store = adopted.as_ref().map_or_else(|| random().map(Drawn), |adopted| Ok(adopted.store))?;
        let mut config = new.config(store);
        let begun = self.write_config(found.as_ref(), &config)?.ok_or_else(exists)?;
        let is_as_written = || vec![as_seen(self.keys.of(Key::Config), Some(&begun))];
        for part in self.parts(new, adopted.as_ref())?.chunks(KEYS_PER_TRANSACTION) {
            // A part may be written twice.
            let write = || self.etcd.commit(&is_as_written(), part);
            if !write().or_else(|_| write())? {
                return Err(exists());
            }
        }
        config.is_complete = true;
        self.write_config(Some(&begun), &config)?.ok_or_else(exists)?;
        Ok(ClusterId(store.0))
    }

    /// Writes the configuration over the one that was seen. Returns what was written; `None` if another process did.
    fn write_config(
        &self,
        seen: Option<&Kept<ConfigRecord>>,
        config: &ConfigRecord,
    ) -> Result<Option<Kept<ConfigRecord>>, MembershipError> {
        let key = self.keys.of(Key::Config);
        let is_seen: Compare = as_seen(key.clone(), seen);
        let outcome = self.etcd.commit(&[is_seen], &[Operation::Put(key, text(config), None)]);
        // The identity is drawn at random, so the value tells who wrote it even if the answer was lost.
        let written = self.read()?.map(|view| view.config).filter(|written| written.value == *config);
        if written.is_none() {
            outcome?;
        }
        Ok(written)
    }

    /// The keys that a creation writes, after removing those of an interrupted one.
    fn parts(&self, new: &NewStore, adopted: Option<&Adopted>) -> Result<Vec<Operation>, MembershipError> {
        let member = |(number, node): (usize, &String)| {
            let directory = adopted.filter(|_| number == 0).map(|adopted| adopted.directory);
            let record = MemberRecord { number: number as u16, directory, start: 0 };
            Operation::Put(self.keys.of(Key::Member(node)), text(&record), None)
        };
        let placement = |shard: u16| {
            let at = if adopted.is_some() { 0 } else { usize::from(shard) % new.nodes.len() };
            let (node, closed) = (new.nodes[at].clone(), adopted.map(|adopted| adopted.count.0));
            Operation::Put(
                self.keys.of(Key::Placement(Shard(shard))),
                text(&PlacementRecord { node, closed, to: None }),
                None,
            )
        };
        let config = self.keys.of(Key::Config);
        let found = self.etcd.read(self.keys.prefix())?.entries.into_iter().filter(|entry| entry.key != config);
        // A transaction may change a key only once, so the deletions have transactions of their own.
        let mut parts: Vec<_> = found.map(|entry| Operation::Delete(entry.key)).collect();
        parts.resize_with(parts.len().next_multiple_of(KEYS_PER_TRANSACTION), || {
            Operation::Delete(self.keys.of(Key::Node("")))
        });
        parts.extend(new.nodes.iter().enumerate().map(member));
        parts.extend((0..new.shards).map(placement));
        Ok(parts)
    }
}

impl NewStore {
    fn config(&self, store: Drawn) -> ConfigRecord {
        let (shards, extent, lease_s) = (self.shards, self.extent, self.lease.as_secs());
        ConfigRecord { store, shards, extent, lease_s, leased: self.leased.clone(), is_complete: false }
    }

    fn check(&self) -> Result<(), MembershipError> {
        let refuse = |why: String| Err(MembershipError::Config(why));
        if let Some(node) = self.nodes.iter().find(|node| !is_name(node)) {
            return refuse(format!(
                "invalid node name '{node}': expected at most 64 letters, digits, '-', '_' and '.'"
            ));
        }
        let names: BTreeSet<_> = self.nodes.iter().collect();
        if names.len() != self.nodes.len() || names.is_empty() || names.len() > NODES_MAX {
            return refuse(format!("expected 1 to {NODES_MAX} nodes with different names"));
        }
        if self.shards == 0 || usize::from(self.shards) > SHARDS_MAX || self.extent == 0 {
            return refuse(format!("expected 1 to {SHARDS_MAX} shards, and extents of at least one page"));
        }
        if self.lease.subsec_nanos() != 0 || !LEASE_S.contains(&self.lease.as_secs()) {
            let (shortest, longest) = (LEASE_S.start(), LEASE_S.end());
            return refuse(format!("expected a lease of {shortest} to {longest} whole seconds, got {:?}", self.lease));
        }
        if self.leased.as_ref().is_some_and(|leased| !leased.is_valid()) {
            let (shortest, longest) = (LeasedSpaces::LEASE_MS.start(), LeasedSpaces::LEASE_MS.end());
            return refuse(format!(
                "expected 1 to {LEASED_SPACES_MAX} leased spaces, and leases of {shortest} to {longest} ms"
            ));
        }
        Ok(())
    }
}
