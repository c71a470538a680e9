//! Trouble: processes that die, devices that are lost, and the operator's say.

use super::host::{Cache, Role};
use super::peer::Peer;
use super::run::World;
use machines::{Life, PartitionId, Sequence, Stamp};
use std::mem;

impl World {
    /// A host's process dies. Of its log the part that is not stable may be there all the same.
    pub(super) fn kill_host(&mut self, host: usize, loses_log: bool) {
        if matches!(self.hosts[host].role, Role::Idle) {
            return;
        }
        self.note(&[24, host as u64, u64::from(loses_log)], || {
            format!("h{host} dies{}", if loses_log { " with its log" } else { "" })
        });
        self.end_role(host);
        let it = &mut self.hosts[host];
        if let Some(log) = &mut it.cache.log {
            let last = log.failed_at.unwrap_or_else(|| log.last());
            log.cut(Sequence(self.rng.between(log.durable.0, last.0)));
        }
        if loses_log {
            it.cache = Cache::default();
        }
        let requests = mem::take(&mut it.requests);
        self.truth.forget(&requests);
    }

    /// A host's machine dies, and the device of its log has not kept everything that it had said was stable.
    pub(super) fn lose_tail(&mut self, host: usize) {
        self.kill_host(host, false);
        let Cache { log, earlier } = &mut self.hosts[host].cache;
        // After a start of the machine nothing is known of the process before.
        earlier.are_dead &= self.cache_rng.chance(500);
        let Some(log) = log else { return };
        let Some(first) = log.records.keys().next().copied() else { return };
        let kept = self.cache_rng.between(first.before().0, log.last().0);
        log.cut(Sequence(kept));
        self.note(&[34, host as u64, kept], || format!("the log of h{host} has lost what it had behind {kept}"));
    }

    /// Somebody copies a host's cache, which may be in use; or restores the copy there, or at another host. Nobody
    /// restores one under a process that runs.
    pub(super) fn copy_cache(&mut self, host: usize) {
        if self.hosts[host].saved.is_none() || self.cache_rng.chance(300) {
            let mut cache = self.hosts[host].cache.clone();
            if let Some(log) = &mut cache.log {
                log.cut(log.failed_at.unwrap_or_else(|| log.last()));
            }
            self.hosts[host].saved = Some(cache);
            return;
        }
        let to = self.cache_rng.index(self.hosts.len());
        if !matches!(self.hosts[to].role, Role::Idle) {
            return;
        }
        let Some(mut cache) = self.hosts[host].saved.take() else { return };
        // It is another directory, unless its files went into that which it had been copied from.
        cache.earlier.are_dead &= to == host && self.cache_rng.chance(500);
        self.note(&[35, host as u64, to as u64], || format!("h{to} has h{host}'s cache, as it was once"));
        self.hosts[to].cache = cache;
    }

    /// The device of an owner's log takes nothing any more, and can be read.
    pub(super) fn fail_log(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let (Role::Owner(owner), Some(log)) = (&mut it.role, &mut it.cache.log) else { return };
        if log.failed_at.is_none() {
            log.failed_at = Some(log.last());
            owner.lose_log(clock);
            self.note(&[33, host as u64], || format!("the device of h{host}'s log fails"));
            self.drain(host);
        }
    }

    pub(super) fn crash_peer(&mut self, peer: usize) {
        if !self.peers[peer].is_up {
            return;
        }
        self.note(&[25, peer as u64], || format!("p{peer} crashes"));
        self.peers[peer].crash(&mut self.rng);
        self.orphans.retain(|orphan| orphan.peer != peer);
        for host in 0..self.hosts.len() {
            let links: Vec<_> =
                self.hosts[host].links.iter().filter(|(_, it)| it.peer == peer).map(|(&it, _)| it).collect();
            for partition in links {
                self.close_link(host, partition);
                self.drain(host);
            }
        }
        self.orphans.retain(|orphan| orphan.peer != peer);
    }

    pub(super) fn lose_device(&mut self, peer: usize) {
        self.crash_peer(peer);
        // A number that leads to the same place.
        self.partitions += self.peers.len() as u64;
        let partition = PartitionId(self.partitions - (self.peers.len() - 1 - peer) as u64);
        self.note(&[26, peer as u64], || format!("p{peer} is {partition:?} with another device"));
        self.peers[peer].start_empty(partition);
        self.begin_life(peer, Life::default());
    }

    /// A holder's machine dies, and its device has not kept everything that it had said was stable.
    pub(super) fn lose_copies(&mut self, peer: usize) {
        self.crash_peer(peer);
        let kept = self.peers[peer].lose_tail(&mut self.rng);
        self.note(&[41, peer as u64, kept as u64], || format!("p{peer} has {kept} entries left"));
    }

    /// A holder starts, in its next life. One whose directory is an older state of it, or has lost the end of its log,
    /// is made again.
    pub(super) fn start_peer(&mut self, peer: usize) {
        let Peer { is_up, life, partition, .. } = self.peers[peer];
        if is_up {
            return;
        }
        let registered = self.lives.get(&partition).copied();
        let begins = life.at_start(None, registered, self.broken).filter(|_| self.peers[peer].is_whole(self.broken));
        let Some(life) = begins else { return self.lose_device(peer) };
        self.note(&[27, peer as u64], || format!("p{peer} starts"));
        self.begin_life(peer, life);
        self.peers[peer].start();
    }

    /// A holder is in the life behind this one, as the registry knows.
    fn begin_life(&mut self, peer: usize, before: Life) {
        self.lives_begun += 1;
        let life = Life { incarnation: before.incarnation + 1, number: self.lives_begun };
        self.peers[peer].life = life;
        self.lives.insert(self.peers[peer].partition, life);
    }

    /// A copy of a holder's directory is made, or it dies, and that is there in the place of its directory. A copy of
    /// the life that it is in is left to [`World::rewind_peer`].
    pub(super) fn restore_peer(&mut self, peer: usize) {
        let it = &self.peers[peer];
        let registered = self.lives.get(&it.partition);
        let is_older = it.copied_life().is_some_and(|life| registered.is_some_and(|it| !it.is_within(life)));
        if !is_older || self.rng.chance(300) {
            return self.peers[peer].copy();
        }
        self.crash_peer(peer);
        self.note(&[40, peer as u64], || format!("p{peer} is as a copy of it was"));
        self.peers[peer].restore();
    }

    /// Like `restore_peer`, with a copy of the current life that lacks dirty writes which the registry has as
    /// acknowledged. The owner may die at the same time. The copy's other missing writes lose their promise, as their
    /// acknowledgements came after the owner's last heartbeat.
    pub(super) fn rewind_peer(&mut self, peer: usize) {
        let Some(made) = self.peers[peer].made_since_copy() else { return self.peers[peer].copy() };
        let (partition, (_, _, mark)) = (self.peers[peer].partition, self.house.stands());
        let acknowledged = self.registry.entry.acknowledged.iter().find(|it| it.partition == partition).copied();
        let is_known = |stamp: &Stamp| {
            acknowledged.is_some_and(|it| it.epoch == stamp.epoch && (it.from..=it.through).contains(&stamp.sequence))
        };
        if !made.iter().any(|stamp| *stamp > mark && is_known(stamp)) {
            if self.rng.chance(200) {
                self.peers[peer].copy();
            }
            return;
        }
        let owner = self.hosts.iter().position(|it| matches!(it.role, Role::Owner(_)));
        if let Some(owner) = owner.filter(|_| self.rng.chance(500)) {
            self.kill_host(owner, true);
        }
        self.crash_peer(peer);
        self.note(&[42, peer as u64], || format!("p{peer} is as a copy of it was in this life: it lacks {made:?}"));
        self.truth.excuse(made.into_iter().filter(|stamp| !is_known(stamp)));
        self.peers[peer].restore();
        self.rewound.insert(partition);
    }

    pub(super) fn leave(&mut self, peer: usize) {
        let it = &mut self.peers[peer];
        if it.is_up && !it.is_leaving {
            it.is_leaving = true;
            it.holder.leave();
            self.note(&[28, peer as u64], || format!("p{peer} wants to leave"));
            self.drain_peer(peer);
        }
    }
}
