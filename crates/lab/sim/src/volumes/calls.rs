//! Calls: what hosts ask of home and of the registry, and what they are told.

use super::host::{Host, Proposal, Role};
use super::house::{Caller, HomeAnswer};
use super::run::{VOLUME, World};
use crate::violation::{Check, ensure};
use core::time::Duration;
use machines::{Change, Circle, Epoch, Findings, HomeSays, HostId, Member, TakeOver, TakeOverConfig, View, VolumeId};
use std::mem;

/// So many states of the registry a copy of its store may be behind.
const PAST_MAX: usize = 12;

impl World {
    // Home.

    pub(super) fn home_call(&mut self, host: usize) {
        let Some((life, session, call)) = self.hosts[host].home_calls.pop_front() else { return };
        // A call of an earlier role was made in a session of its own, and comes as long as that lasts.
        let arrives = if life == self.hosts[host].life { self.opens_home(host) } else { session == self.house.life() };
        if !arrives {
            return;
        }
        self.note(&[16, host as u64], || format!("h{host} -> home: {call:?}"));
        for (caller, answer) in self.house.take((host, life), call) {
            self.tell_home_answer(caller, answer);
        }
    }

    /// A host has a session with home, or opens one: one that went back ends its role. Returns whether it continues.
    pub(super) fn opens_home(&mut self, host: usize) -> bool {
        let (life, found) = (self.house.life(), self.house.state());
        let it = &mut self.hosts[host];
        if mem::replace(&mut it.home_life, life) == life {
            return true;
        }
        // An answer that was not heard in the session before is lost with that.
        it.home_answers.iter_mut().for_each(|answer| *answer = HomeAnswer::Failed);
        let Err(back) = it.home.hear(found) else { return true };
        self.note(&[34, host as u64], || format!("h{host} notices that home went back: {back}"));
        self.went_back();
        if let Some(owner) = self.hosts[host].owner() {
            owner.stop();
            self.drain(host);
        }
        let requests = mem::take(&mut self.hosts[host].requests);
        self.truth.forget(&requests);
        self.end_role(host);
        // Nothing more is asked of it.
        self.hosts[host].home_calls.clear();
        false
    }

    /// Home is said to were restored from older copies: that must have come of a copy.
    pub(super) fn went_back(&mut self) {
        let was_restored = self.house.restores() > 0;
        let found = ensure(was_restored, "home stays", || "home is said to have gone back, and never did".to_owned());
        self.found = mem::replace(&mut self.found, Ok(())).and(found);
    }

    pub(super) fn restore_home(&mut self) {
        let Some(waiting) = self.house.restore(&mut self.rng) else { return };
        let image = self.house.image();
        self.note(&[35], || format!("home is as a copy of it was: {image:?}"));
        self.truth.restored(image);
        self.has_lost = true;
        for caller in waiting {
            self.tell_home_answer(caller, HomeAnswer::Failed);
        }
    }

    pub(super) fn home_work(&mut self) {
        if !self.house.is_busy() {
            return;
        }
        let told = self.house.work(&mut self.rng);
        let image = self.house.image().map(|stamp| (stamp.epoch.0, stamp.sequence.0));
        self.note(&[17], || format!("home has {image:?}, says {told:?}"));
        if let Some((caller, answer)) = told {
            self.tell_home_answer(caller, answer);
        }
    }

    pub(super) fn home_answer(&mut self, host: usize) {
        let (id, kept) = (self.hosts[host].id, self.kept.as_ref().map_or(0, |it| it.revision));
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let Some(answer) = it.home_answers.pop_front() else { return };
        if let HomeAnswer::Durable(mark) | HomeAnswer::Fenced(_, mark) = answer {
            it.home.is_home(mark);
        }
        match (answer, &mut it.role) {
            (HomeAnswer::Durable(mark), role) => {
                let Some(through) = it.homing.take() else { return };
                let is_home = mark >= through;
                match role {
                    Role::Owner(owner) if is_home => {
                        owner.home_durable(clock, through);
                        if let Some(log) = &mut it.cache.log {
                            log.records.retain(|_, record| record.stamp > through);
                        }
                    }
                    Role::Owner(owner) => owner.home_failed(clock),
                    Role::TakeOver(takeover) if is_home => takeover.home_durable(clock, through),
                    Role::TakeOver(takeover) => takeover.home_failed(clock),
                    Role::Idle => {}
                }
            }
            (HomeAnswer::Fenced(epoch, mark), Role::TakeOver(takeover)) if takeover.epoch() == epoch => {
                takeover.home_keeps(clock, kept);
                takeover.home_fenced(clock, mark);
            }
            (HomeAnswer::Says(epoch, whose, mark), Role::Owner(owner)) => {
                let is_own = (epoch, whose) == (owner.epoch(), id);
                owner.home_says(clock, if is_own { HomeSays::Own(mark) } else { HomeSays::Other(epoch) });
            }
            (HomeAnswer::Says(..), Role::TakeOver(takeover)) => takeover.home_keeps(clock, kept),
            (HomeAnswer::Failed, Role::Owner(owner)) => owner.home_failed(clock),
            (HomeAnswer::Failed, Role::TakeOver(takeover)) => takeover.home_failed(clock),
            (HomeAnswer::Ended(epoch), Role::Owner(owner)) => owner.home_ended(epoch),
            (HomeAnswer::Ended(epoch), Role::TakeOver(takeover)) => takeover.home_ended(epoch),
            _ => {}
        }
        self.note(&[18, host as u64], || format!("home -> h{host}: {answer:?}"));
        self.drain(host);
    }

    pub(super) fn crash_home(&mut self) {
        let waiting = self.house.crash(&mut self.rng);
        self.note(&[19], || "home crashes");
        for caller in waiting {
            self.tell_home_answer(caller, HomeAnswer::Failed);
        }
    }

    pub(super) fn tell_home_answer(&mut self, caller: Caller, answer: HomeAnswer) {
        let (host, life) = caller;
        if self.hosts[host].life == life {
            self.hosts[host].home_answers.push_back(answer);
        }
    }

    // The registry.

    /// When an epoch begins, no owner of an earlier one answers reads.
    fn no_other_reads(&self, host: usize, epoch: Epoch) -> Check {
        let may_read = |it: &Host| matches!(&it.role, Role::Owner(owner) if owner.may_read(it.clock(self.now)));
        let other = (0..self.hosts.len()).find(|&other| other != host && may_read(&self.hosts[other]));
        ensure(other.is_none(), "one owner", || format!("h{host} begins {epoch:?}, and {other:?} answers reads"))
    }

    fn is_cut_off(&self, host: usize) -> bool {
        self.hosts[host].is_cut || self.hosts[host].is_apart
    }

    pub(super) fn propose(&mut self, host: usize, change: Change, revision: Option<u64>) {
        let home_restores = self.house.restores();
        let it = &mut self.hosts[host];
        it.changes.push_back(Proposal { life: Some(it.life), home_restores, change, revision });
    }

    /// The store is put back from an older copy of it: the registry is as it was, and everybody's session with it ends.
    pub(super) fn roll_back(&mut self) {
        if self.past.is_empty() {
            return;
        }
        self.past.truncate(self.rng.between(1, self.past.len() as u64) as usize);
        let Some(view) = self.past.pop() else { return };
        let from = mem::replace(&mut self.registry, view.clone()).revision;
        self.note(&[38, view.revision], || format!("the registry goes back from {from} to {view:?}"));
        for host in 0..self.hosts.len() {
            if matches!(&self.hosts[host].role, Role::TakeOver(it) if it.is_watching()) {
                self.end_role(host);
            }
            // One of a host that continues is said again in its next session.
            let it = &mut self.hosts[host];
            it.changes.retain(|on_its_way| on_its_way.life.is_none_or(|life| life == it.life));
        }
    }

    /// The operator has the entry made again of what home and the holders that are there say.
    pub(super) fn rebuild(&mut self) {
        let (epoch, owner, mark) = self.house.stands();
        let there = self.peers.iter().filter(|peer| peer.is_up);
        let held = there.flat_map(|peer| peer.holder.held(VolumeId(0)).map(|it| (peer.partition, it))).collect();
        let (size, kept, standing) = (self.registry.entry.size, self.kept.clone(), Some(self.registry.clone()));
        let size = kept.as_ref().map_or(size, |it| it.entry.size);
        let findings = Findings { size, epoch, owner: owner.0, mark, kept, standing, held, cache_epoch: Epoch(0) };
        let view = findings.rebuild(self.scenario.copies, self.scenario.lease);
        self.note(&[39, view.revision], || format!("the operator rebuilds {view:?}"));
        self.registry = view;
    }

    /// The owner tells home of the entry, if it has another owner, size or holders than home knows.
    fn keep(&mut self) {
        let told = |view: &View| (view.entry.epoch, view.entry.owner, view.entry.size, view.entry.holders.clone());
        let view = &self.registry;
        if !view.entry.is_taking && self.kept.as_ref().map(told) != Some(told(view)) {
            self.kept = Some(view.clone());
        }
    }

    pub(super) fn change(&mut self, host: usize) {
        let Some(proposal) = self.hosts[host].changes.pop_front() else { return };
        let Proposal { life, home_restores, change, revision: restored } = proposal;
        let is_made = change.expects == self.registry.revision && change.entry.epoch >= self.registry.entry.epoch;
        self.note(&[20, host as u64, u64::from(is_made)], || {
            format!("h{host} -> registry: {:?}: {}", change.entry, if is_made { "made" } else { "refused" })
        });
        if is_made {
            // One that home has learned of begins no more: the registry was restored from an older copy, and home
            // refuses it. So does a host that claims another one there, as home has kept a later entry.
            let has_gone_back = self.kept.as_ref().is_some_and(|kept| kept.revision > self.registry.revision);
            let is_later = change.entry.epoch > self.registry.entry.epoch && change.entry.epoch > self.house.stands().0;
            let was_taking = self.registry.entry.is_taking && restored.is_none();
            if is_later && !has_gone_back || was_taking && !change.entry.is_taking {
                let found = self.no_other_reads(host, change.entry.epoch);
                self.found = mem::replace(&mut self.found, Ok(())).and(found);
            }
            let revision = restored.unwrap_or(self.registry.revision + 1);
            let before = mem::replace(&mut self.registry, View { revision, entry: change.entry });
            self.past.push(before);
            self.past.drain(..self.past.len().saturating_sub(PAST_MAX));
            self.keep();
            if was_taking && !self.registry.entry.is_taking {
                // Home that was restored since is found to be older by the next one.
                let is_older = self.house.restores() > home_restores;
                let has_lost = mem::replace(&mut self.has_lost, is_older);
                let begun = self.truth.begin(self.registry.entry.epoch, self.house.image(), has_lost, is_older);
                self.found = mem::replace(&mut self.found, Ok(())).and(begun);
            }
        }
        let view = self.registry.clone();
        if life == Some(self.hosts[host].life) {
            self.hosts[host].outcomes.push_back(if is_made { Ok(view) } else { Err(Some(view)) });
        }
    }

    /// The answer of the registry arrives, or none does within the host's patience.
    pub(super) fn outcome(&mut self, host: usize) {
        let is_cut_off = self.is_cut_off(host);
        let gives_up = is_cut_off && self.rng.chance(300);
        let it = &mut self.hosts[host];
        let outcome = match it.outcomes.pop_front() {
            Some(outcome) if !is_cut_off => outcome,
            Some(_) if gives_up => Err(None),
            None if gives_up && it.changes.iter().any(|on_its_way| on_its_way.life == Some(it.life)) => {
                // It may be made yet, and nobody learns of that.
                it.changes.iter_mut().for_each(|on_its_way| on_its_way.life = None);
                Err(None)
            }
            Some(outcome) => return it.outcomes.push_front(outcome),
            None => return,
        };
        let clock = it.clock(self.now);
        self.note(&[21, host as u64], || format!("registry -> h{host}: {outcome:?}"));
        match &mut self.hosts[host].role {
            Role::Owner(owner) => owner.changed(clock, outcome),
            Role::TakeOver(takeover) => takeover.changed(clock, outcome),
            Role::Idle => {}
        }
        self.drain(host);
    }

    pub(super) fn watch(&mut self, host: usize) {
        let view = self.registry.clone();
        let it = &mut self.hosts[host];
        if it.heard == view.revision {
            return;
        }
        it.heard = view.revision;
        let clock = it.clock(self.now);
        match &mut it.role {
            Role::Owner(owner) => owner.hear_registry(clock, view),
            Role::TakeOver(takeover) => takeover.hear_registry(clock, view),
            Role::Idle => {}
        }
        self.drain(host);
    }

    pub(super) fn peer_watch(&mut self, peer: usize) {
        if !self.peers[peer].is_up {
            return;
        }
        self.peers[peer].holder.registered(VOLUME, &self.registry);
        self.drain_peer(peer);
    }

    pub(super) fn members(&mut self, host: usize) {
        let member = |(at, peer): (usize, &super::peer::Peer)| Member {
            partition: peer.partition,
            domain: at as u64,
            free: peer.holder.free_room(),
            copies: peer.holder.used(),
            is_nearly_full: peer.holder.is_nearly_full(),
        };
        let there = self.peers.iter().enumerate().filter(|(_, peer)| peer.is_up && !peer.is_leaving);
        let circle = Circle::new(there.map(member).collect());
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        if let Some(owner) = it.owner() {
            owner.members(clock, circle);
        }
        self.drain(host);
    }

    pub(super) fn take_over(&mut self, host: usize) {
        let entry = &self.registry.entry;
        if !matches!(self.hosts[host].role, Role::Idle) {
            return;
        }
        let is_well =
            |host: &Host| !host.is_cut && !host.is_apart && host.is_awake(self.now) && !matches!(host.role, Role::Idle);
        let owner = entry.owner.and_then(|owner| self.hosts.iter().find(|it| it.id == owner));
        let is_suspect = owner.is_none_or(|owner| !is_well(owner));
        if !is_suspect && self.rng.below(20) != 0 {
            return;
        }
        // The cache remembers the number before the registry learns of it.
        self.attachments += 1;
        let id = HostId(self.attachments);
        let earlier = self.hosts[host].cache.earlier.clone();
        let known = &mut self.hosts[host].cache.earlier;
        if !mem::replace(&mut known.are_dead, true) {
            known.hosts.clear();
        }
        known.hosts.push(id);
        self.hosts[host].id = id;
        let config = TakeOverConfig {
            keeps: self.is_calm || self.rng.chance(800),
            join_bytes: self.scenario.join_bytes,
            window: self.rng.between(1, 4) as usize,
            retry: Duration::from_millis(3),
            silence: Duration::from_millis(40),
            broken: self.broken,
            ..TakeOverConfig::new(VOLUME, id)
        };
        let view = self.registry.clone();
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let mut takeover = TakeOver::new(clock, config, view).with_earlier(clock, earlier);
        if let Some(log) = &it.cache.log {
            takeover = takeover.with_own_log(log.epoch, log.entries());
        }
        it.role = Role::TakeOver(Box::new(takeover));
        self.note(&[22, host as u64], || format!("h{host} begins to take over"));
        self.drain(host);
    }

    pub(super) fn accept_loss(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        if let Role::TakeOver(takeover) = &mut it.role
            && it.misses
        {
            takeover.accept_loss(clock);
            it.misses = false;
            self.has_lost = true;
            self.note(&[23, host as u64], || format!("h{host} accepts loss"));
            self.drain(host);
        }
    }
}
