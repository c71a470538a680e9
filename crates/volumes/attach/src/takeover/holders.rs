//! The sessions of a takeover with holders.

use crate::links::{Link, Listener, News};
use machines::{PartitionId, ToHolder};
use net::Runtime;
use registry::{HolderName, Registrant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use types::GoodbyeReason;

/// The sessions, as the takeover wants them.
pub(super) struct Holders {
    runtime: Runtime,
    listener: Arc<Tells>,
    members: Vec<Registrant>,
    names: Vec<HolderName>,
    wanted: BTreeSet<PartitionId>,
    links: BTreeMap<PartitionId, Arc<Link>>,
}

/// Reports news.
struct Tells(Box<dyn Fn(PartitionId) + Send + Sync>);

impl Listener for Tells {
    fn news(&self, partition: PartitionId) {
        (self.0)(partition);
    }
}

impl Holders {
    pub(super) fn new(runtime: Runtime, tell: impl Fn(PartitionId) + Send + Sync + 'static) -> Self {
        let listener = Arc::new(Tells(Box::new(tell)));
        let (members, names, wanted, links) = (Vec::new(), Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { runtime, listener, members, names, wanted, links }
    }

    /// The volume's holders have these names, as they were known last.
    pub(super) fn has_names(&mut self, names: Vec<HolderName>) {
        self.names = names;
        self.open_wanted();
    }

    /// The members are these now: links that are missing are opened, and those to another address are opened again.
    pub(super) fn has_members(&mut self, members: Vec<Registrant>) {
        self.members = members;
        self.open_wanted();
    }

    fn open_wanted(&mut self) {
        for partition in self.wanted.clone() {
            self.open(partition);
        }
    }

    pub(super) fn connect(&mut self, partition: PartitionId) {
        self.wanted.insert(partition);
        self.open(partition);
    }

    pub(super) fn disconnect(&mut self, partition: PartitionId) {
        self.wanted.remove(&partition);
        if let Some(link) = self.links.remove(&partition) {
            link.close();
        }
    }

    pub(super) fn reconnect(&self, partition: PartitionId, reason: GoodbyeReason) {
        if let Some(link) = self.links.get(&partition) {
            link.line().end(reason);
        }
    }

    pub(super) fn send(&self, partition: PartitionId, message: ToHolder) {
        if let Some(link) = self.links.get(&partition) {
            link.line().push(message);
        }
    }

    /// Sends what was pushed.
    pub(super) fn settle(&self) {
        self.links.values().for_each(|link| link.settle());
    }

    /// The news of a holder, in their order.
    pub(super) fn take_news(&self, partition: PartitionId, hear: impl FnMut(News)) {
        if let Some(link) = self.links.get(&partition) {
            link.line().take().into_iter().for_each(hear);
        }
    }

    /// A holder for people.
    pub(super) fn name(&self, partition: PartitionId) -> String {
        let number = format!("{:016x}", partition.0);
        let member = self.find(partition).map(|it| format!("{} ({number}) at {}", it.name, it.address));
        let known = || self.names.iter().find(|it| it.partition == partition).map(ToString::to_string);
        member.or_else(known).unwrap_or(number)
    }

    fn find(&self, partition: PartitionId) -> Option<&Registrant> {
        self.members.iter().find(|it| it.member.partition == partition)
    }

    fn open(&mut self, partition: PartitionId) {
        // One that has not told a store that is new where it is may be where it was.
        let known = || self.names.iter().find(|it| it.partition == partition).map(|it| it.address.clone());
        let Some(address) = self.find(partition).map(|it| it.address.clone()).or_else(known) else { return };
        if self.links.get(&partition).is_some_and(|link| link.address() == address) {
            return;
        }
        if let Some(link) = self.links.remove(&partition) {
            link.close();
            self.listener.news(partition);
        }
        let listener: Weak<dyn Listener> = Arc::downgrade(&(self.listener.clone() as Arc<dyn Listener>));
        self.links.insert(partition, Link::open(partition, address, &self.runtime, listener));
        // It may have come up before anybody could find it.
        self.listener.news(partition);
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.close());
    }
}
