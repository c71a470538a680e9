//! The wishes of a host's machine, which its driver carries out.

use super::blocks::{self, BLOCK};
use super::host::{OwnLog, OwnRead, Role};
use super::house::{HomeCall, WriteCall};
use super::run::{VOLUME, World};
use crate::violation::ensure;
use core::time::Duration;
use machines::{Effect, Epoch, Owner, OwnerConfig, PartitionId, TakeOverEffect, View, WriteBack};
use std::collections::BTreeMap;
use std::mem;

impl World {
    pub(super) fn drain(&mut self, host: usize) {
        loop {
            match &mut self.hosts[host].role {
                Role::Idle => return,
                Role::Owner(owner) => match owner.poll_effect() {
                    Some(effect) => self.owner_wants(host, effect),
                    None => return,
                },
                Role::TakeOver(takeover) => match takeover.poll_effect() {
                    Some(effect) => self.take_over_wants(host, effect),
                    None => return,
                },
            }
        }
    }

    pub(super) fn owner_wants(&mut self, host: usize, effect: Effect) {
        match effect {
            Effect::Answer(request, outcome) => {
                self.note(&[29, request.0, u64::from(outcome.is_ok())], || {
                    format!("h{host} answers request {}: {outcome:?}", request.0)
                });
                self.hosts[host].requests.remove(&request);
                self.truth.answered(request, outcome.is_ok());
            }
            Effect::WriteHome(back) => self.write_back(host, back),
            Effect::Room => {}
            Effect::Connect(partition) => drop(self.hosts[host].wanted.insert(partition)),
            Effect::Disconnect(partition) => {
                self.hosts[host].wanted.remove(&partition);
                self.close_link(host, partition);
            }
            Effect::Reconnect(partition, _) => self.close_link(host, partition),
            Effect::Send(partition, message) => {
                if let Some(link) = self.hosts[host].links.get_mut(&partition) {
                    link.to_peer.push_back(message);
                }
            }
            Effect::Read(read) => self.hosts[host].reads.push_back(OwnRead::ForHolder(read)),
            Effect::Change(change) => self.propose(host, change, None),
            Effect::AskHome => self.hosts[host].call_home(self.house.life(), HomeCall::Ask),
            Effect::Restore(restore) => self.propose(host, restore.change, Some(restore.revision)),
            Effect::Ended(_) | Effect::Detached => {
                self.note(&[30, host as u64], || format!("h{host} is not the owner any more: {effect:?}"));
                while let Some(effect) = self.hosts[host].owner().and_then(Owner::poll_effect) {
                    self.owner_wants(host, effect);
                }
                let requests = mem::take(&mut self.hosts[host].requests);
                self.truth.forget(&requests);
                self.end_role(host);
            }
        }
    }

    /// The newest write of each block goes to home.
    pub(super) fn write_back(&mut self, host: usize, back: WriteBack) {
        let WriteBack { after, through, is_joined } = back;
        let it = &mut self.hosts[host];
        let Some(log) = &it.cache.log else { return };
        let mut newest = BTreeMap::new();
        for record in log.records.values().filter(|it| it.stamp > after && it.stamp <= through) {
            newest.extend(blocks::blocks(record.extent).map(|block| (block, record.stamp)));
        }
        let blocks = newest.into_iter().collect();
        it.homing = Some(through);
        let epoch = log.epoch;
        it.call_home(self.house.life(), HomeCall::Write(WriteCall { epoch, through, is_joined, blocks }));
    }

    pub(super) fn take_over_wants(&mut self, host: usize, effect: TakeOverEffect) {
        let id = self.hosts[host].id;
        let it = &mut self.hosts[host];
        match effect {
            TakeOverEffect::Change(change) => self.propose(host, change, None),
            TakeOverEffect::AskHome => it.call_home(self.house.life(), HomeCall::Ask),
            TakeOverEffect::FenceHome(epoch) => it.call_home(self.house.life(), HomeCall::Fence(epoch, id)),
            TakeOverEffect::Connect(partition) => drop(it.wanted.insert(partition)),
            TakeOverEffect::Disconnect(partition) => {
                it.wanted.remove(&partition);
                self.close_link(host, partition);
            }
            TakeOverEffect::Reconnect(partition, _) => self.close_link(host, partition),
            TakeOverEffect::Send(partition, message) => {
                if let Some(link) = it.links.get_mut(&partition) {
                    link.to_peer.push_back(message);
                }
            }
            TakeOverEffect::ReadOwn(stamp) => it.reads.push_back(OwnRead::ForHome(stamp)),
            TakeOverEffect::Begin(through, is_joined) => {
                let Role::TakeOver(takeover) = &it.role else { return };
                let epoch = takeover.epoch();
                it.collected = Some(WriteCall { epoch, through, is_joined, blocks: Vec::new() });
            }
            TakeOverEffect::Write(record) => {
                let found = self.truth.contents(&record);
                self.found = mem::replace(&mut self.found, Ok(())).and(found);
                if let Some(call) = &mut it.collected {
                    let written = blocks::blocks(record.extent);
                    call.blocks.retain(|(block, _)| !written.contains(block));
                    call.blocks.extend(written.map(|block| (block, record.stamp)));
                }
                let clock = it.clock(self.now);
                if let Role::TakeOver(takeover) = &mut it.role {
                    takeover.home_took(clock, 1);
                }
            }
            TakeOverEffect::End(through) => {
                if let Some(call) = it.collected.take() {
                    it.homing = Some(through);
                    it.call_home(self.house.life(), HomeCall::Write(call));
                }
            }
            TakeOverEffect::Abort => it.collected = None,
            TakeOverEffect::Missing(missing) => {
                it.misses = true;
                self.lacks_acknowledged(host, &missing);
            }
            TakeOverEffect::HomeWentBack(_) => {
                it.misses = true;
                self.went_back();
            }
            TakeOverEffect::Done(view) => self.taken_over(host, view),
            TakeOverEffect::Lost(epoch) => {
                self.note(&[31, host as u64], || format!("h{host} was not the first to take over"));
                self.end_role(host);
                self.look_for_later(epoch, host);
            }
            TakeOverEffect::RegistryBack => {
                self.note(&[37, host as u64], || format!("h{host} finds that the registry has gone back"));
                self.end_role(host);
                self.rebuild();
            }
        }
    }

    /// A takeover reports an older holder only if its directory was restored. A restored home may lack writes that
    /// holders have freed.
    fn lacks_acknowledged(&mut self, host: usize, missing: &[PartitionId]) {
        let Role::TakeOver(takeover) = &self.hosts[host].role else { return };
        let are_known = self.house.restores() > 0
            || missing.iter().filter(|it| takeover.lacks_acknowledged(**it)).all(|it| self.rewound.contains(it));
        let found =
            ensure(are_known, "holders stay", || format!("some of {missing:?} lack what they have acknowledged"));
        self.found = mem::replace(&mut self.found, Ok(())).and(found);
    }

    /// A host that took over was refused by who knows of this epoch: if the registry knows of no such one of another
    /// host, it was restored from an older copy.
    fn look_for_later(&mut self, epoch: Epoch, host: usize) {
        let entry = &self.registry.entry;
        if entry.epoch < epoch || entry.epoch == epoch && entry.owner == Some(self.hosts[host].id) {
            self.rebuild();
        }
    }

    /// A host has no part in the volume any more.
    pub(super) fn end_role(&mut self, host: usize) {
        let partitions: Vec<_> = self.hosts[host].links.keys().copied().collect();
        self.hosts[host].end_role();
        for partition in partitions {
            self.close_link(host, partition);
        }
    }

    pub(super) fn taken_over(&mut self, host: usize, view: View) {
        self.note(&[32, host as u64, view.entry.epoch.0], || format!("h{host} has taken over: {:?}", view.entry));
        let epoch = view.entry.epoch;
        let (home, home_life) = (self.hosts[host].home, self.hosts[host].home_life);
        self.end_role(host);
        // The log's writes are home, or were not the volume's any more.
        self.hosts[host].cache.log = None;
        let id = self.hosts[host].id;
        if view.entry.owner != Some(id) {
            return;
        }
        let scenario = &self.scenario;
        let write = BLOCK + 100;
        let config = OwnerConfig {
            holders: scenario.holders,
            ack: scenario.ack,
            degraded: scenario.degraded,
            record_bytes: 100,
            age_max: scenario.age_max,
            join_bytes: scenario.join_bytes,
            retry: Duration::from_millis(3),
            silence: Duration::from_millis(40),
            silence_min: Duration::from_millis(10),
            strike_after: Duration::from_millis(2),
            replace_after: Duration::from_millis(5),
            back_bytes_per_second: scenario.back_bytes_per_second,
            read_bytes: 2 * BLOCK,
            broken: self.broken,
            ..OwnerConfig::new(0, scenario.log_writes * write)
        };
        let it = &mut self.hosts[host];
        // Its session with home is the one by which it has taken over.
        (it.home, it.home_life) = (home, home_life);
        let clock = it.clock(self.now);
        let owner = Owner::attach(clock, config, VOLUME, id, 1000 + host as u64, view);
        it.cache.log = Some(OwnLog { epoch, ..OwnLog::default() });
        it.cache.earlier.hosts = vec![id];
        it.role = Role::Owner(Box::new(owner));
        self.drain(host);
    }
}
