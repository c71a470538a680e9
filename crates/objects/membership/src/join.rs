//! A node begins a run: it takes its name under a new lease.
//!
//! ```text
//!   name in use --waits for one lease--> refused: two processes under one name
//!        |  gone
//!        v
//!   directory: the next start --> lease granted --> nodes/NODE, members/NODE, both at once --> a run
//! ```

use crate::MembershipError;
use crate::binding::Binding;
use crate::cluster::Cluster;
use crate::follow::Follower;
use crate::keep::Run;
use crate::keys::Key;
use crate::plan::Own;
use crate::records::{Drawn, NodeRecord, text};
use crate::view::{View, as_seen};
use database::LocalStore;
use etcd::{Compare, Lease, Operation};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use types::{Time, lease};
use vfs::random;

/// How often the name of the node is looked at that is in use.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much longer than a lease its key may be there: etcd looks twice a second, and its shortest lease is 2 s.
const EXPIRES_WITHIN: Duration = Duration::from_secs(3);

/// A node that is about to join its store.
#[derive(Debug)]
pub struct Join<'a> {
    /// The store.
    pub cluster: &'a Cluster,
    /// The node's name.
    pub node: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Where clients and other nodes reach it.
    pub address: String,
}

/// The name is in use: by a predecessor that was killed, whose lease ends, or by another process.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The address of the process that has the name.
    pub address: String,
    /// The longest that is waited.
    pub within: Duration,
}

impl<'a> Join<'a> {
    /// Checks that the directory is the node's, before anything is made of it.
    pub fn check(&self, view: &View) -> Result<(), MembershipError> {
        self.next_binding(view).map(drop)
    }

    fn next_binding(&self, view: &View) -> Result<Binding, MembershipError> {
        let found = Binding::read(&self.dir)?;
        Binding::next(found.as_ref(), &self.cluster.keys, view, &self.node, &self.dir)
    }

    /// Begins a run, for a store that was recovered from the directory and has it locked. Returns `None` if it was
    /// stopped while it waited for the name.
    pub fn begin(
        &self,
        store: &LocalStore,
        mut on_wait: impl FnMut(&Waiting),
        is_stopped: impl Fn() -> bool,
    ) -> Result<Option<Run<'a>>, MembershipError> {
        let mut view = self.cluster.view()?;
        let within = view.lease() + EXPIRES_WITHIN;
        let (begun, mut has_waited) = (Instant::now(), false);
        loop {
            if let Some(other) = view.nodes.get(&self.node) {
                let address = other.value.address.clone();
                if begun.elapsed() > within {
                    return Err(MembershipError::NameInUse { node: self.node.clone(), address });
                }
                if !std::mem::replace(&mut has_waited, true) {
                    on_wait(&Waiting { address, within });
                }
                if is_stopped() {
                    return Ok(None);
                }
                sleep(LOOK_EVERY);
                view = self.cluster.view()?;
                continue;
            }
            match self.attempt(store, &view)? {
                Ok(run) => return Ok(Some(run)),
                Err(newer) => view = newer,
            }
        }
    }

    /// Takes the name as it was seen to be free. `Err` has a later view if that has failed.
    fn attempt(&self, store: &LocalStore, view: &View) -> Result<Result<Run<'a>, View>, MembershipError> {
        let Cluster { keys, etcd, .. } = self.cluster;
        let binding = self.next_binding(view)?;
        binding.write(&self.dir)?;
        let Some(number) = view.number(&self.node) else { unreachable!("the directory is a member's") };
        let sent = store.now();
        let Lease { id, length } = etcd.grant(view.lease())?;
        let own = Own { keys: keys.clone(), node: self.node.clone(), run: Drawn(random()?), lease: id };
        let opening = view.shards_of(&self.node).map(|shard| shard.0).collect();
        let (address, waits_for, coming) = (self.address.clone(), Vec::new(), Vec::new());
        let record = NodeRecord { address, run: own.run, opening, waits_for, log_percent: 0, coming };
        let (node, member) = (keys.of(Key::Node(&self.node)), keys.of(Key::Member(&self.node)));
        let compares = [
            Compare::Absent(node.clone()),
            as_seen(member.clone(), view.members.get(&self.node)),
            as_seen(keys.of(Key::Config), Some(&view.config)),
        ];
        let puts = [
            Operation::Put(node, text(&record), Some(id)),
            Operation::Put(member, text(&binding.member(number.0)), None),
        ];
        let outcome = etcd.commit(&compares, &puts);
        let view = self.cluster.view()?;
        if !view.is_up(&self.node, own.run) {
            // It expires by itself, too.
            let _ = etcd.revoke(id);
            outcome?;
            return Ok(Err(view));
        }
        let follower = Follower::new(keys.clone(), &self.node, own.run, binding.epoch());
        let until: Time = sent + lease::shorter(length);
        Ok(Ok(Run::new(self.cluster, own, follower, (binding, self.dir.clone()), view, until)))
    }
}
