//! The updaters of a hub elsewhere than in its process, and the sources that they speak for.

use super::lease::longer;
use super::sources::CaughtUp;
use super::{By, Hub, HubConfig, Peer};
use crate::messages::hub::{Dependency, Fence, Introduce, Lease, Released, SourceName, Update, UpdateId};
use crate::rule::Rule;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use machine::{Output, Port};
use types::lease::millis;
use types::limits::UPDATES_PER_UPDATER_MAX;
use types::{GoodbyeReason, Time};

#[derive(Debug)]
pub(super) struct Updater {
    pub(super) port: Option<Port>,
    /// The source that it speaks for.
    source: Option<SourceName>,
    /// Its updates under way, by its own numbers for them.
    pub(super) updates: BTreeMap<u64, UpdateId>,
    /// When its lease is over, and with it its updates are.
    pub(super) until: Time,
}

impl Hub {
    pub(super) fn introduce(&mut self, now: Time, port: Port, introduce: Introduce) {
        let Introduce { life, asked, source, fence } = introduce;
        let check = |name| self.sources.check(name, life, fence, self.config.broken);
        if let Some(Err((reason, text))) = source.as_ref().map(check) {
            return self.outputs.push_back(Output::End(port, reason, text));
        }
        self.updaters.retain(|_, it| it.port.is_some() || !it.updates.is_empty() || it.source.is_some());
        let updater = self.updaters.entry(life).or_insert_with(|| Updater {
            port: None,
            source,
            updates: BTreeMap::new(),
            until: Time::ZERO,
        });
        if let Some(earlier) = updater.port.replace(port) {
            self.peers.remove(&earlier);
            let text = String::from("the updater has come again, on another connection");
            self.outputs.push_back(Output::End(earlier, GoodbyeReason::Silent, text));
        }
        self.peers.insert(port, Peer::Updater(life));
        self.lease_updater(now, port, life, asked);
    }

    /// Marks everything until a source has caught up.
    pub(super) fn mark_without(&mut self, now: Time, name: &SourceName) {
        if self.config.broken.is(Rule::StarWithoutSource) {
            return;
        }
        let update = self.next();
        if self.sources.mark(name, update) {
            self.begin(now, update, By::Nobody, Vec::from([Dependency::ALL]));
        }
    }

    /// An updater has announced everything that there is to announce of its source, and speaks for it from now on.
    pub(super) fn source_caught_up(&mut self, port: Port, life: u64, fence: Fence) {
        let Some(updater) = self.updaters.get_mut(&life) else { return };
        let Some(name) = &updater.source else { return };
        let Some(CaughtUp { deposed, mark }) = self.sources.caught_up(name, life, fence, self.config.broken) else {
            let text = format!("another updater has got hold of '{name}' since");
            updater.port = None;
            self.peers.remove(&port);
            return self.outputs.push_back(Output::End(port, GoodbyeReason::Superseded, text));
        };
        let text = format!("another updater speaks for '{name}' from now on");
        let deposed = deposed.and_then(|earlier| self.updaters.get_mut(&earlier)?.port.take());
        if let Some(port) = deposed {
            self.peers.remove(&port);
            self.outputs.push_back(Output::End(port, GoodbyeReason::Superseded, text));
        }
        if let Some(update) = mark {
            self.unmark(update);
        }
    }

    pub(super) fn lease_updater(&mut self, now: Time, port: Port, life: u64, asked: Time) {
        let Some(updater) = self.updaters.get_mut(&life) else { return };
        let HubConfig { lease, updater_lease, .. } = self.config;
        let lease = if updater.source.is_some() { lease } else { updater_lease };
        updater.until = updater.until.max(now + longer(lease, self.config.broken));
        self.say(port, Lease { asked, lease_ms: millis(lease) });
    }

    pub(super) fn updated(&mut self, now: Time, port: Port, life: u64, Update { id, dependencies }: Update) {
        let Some(updater) = self.updaters.get_mut(&life) else { return };
        if let Some(&update) = updater.updates.get(&id) {
            // It comes again. It may not have learned of the release.
            let marked = &self.updates[&update].dependencies;
            if *marked != dependencies && *marked != [Dependency::ALL] {
                let text = String::from("another updater has the same life: each is to draw one at random");
                return self.outputs.push_back(Output::End(port, GoodbyeReason::Protocol, text));
            }
            if !self.waiting.contains(&update) {
                self.say(port, Released { id });
            }
            return;
        }
        if updater.updates.len() >= UPDATES_PER_UPDATER_MAX {
            let text = format!("an updater has at most {UPDATES_PER_UPDATER_MAX} updates under way");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::TooMuch, text));
        }
        self.last_update.0 += 1;
        let update = self.last_update;
        updater.updates.insert(id, update);
        self.begin(now, update, By::Updater(life, id), dependencies);
    }

    /// The updates of updaters that were not learned of for as long as a lease are over.
    pub(super) fn let_updaters_go(&mut self, now: Time) {
        let gone: Vec<u64> = self.updaters.iter().filter(|(_, it)| it.until <= now).map(|(&life, _)| life).collect();
        for life in gone {
            // Everything is marked before the updates are unmarked that the source has under way.
            if let Some(name) = self.sources.left(life) {
                self.mark_without(now, &name);
            }
            let Some(Updater { port, updates, .. }) = self.updaters.remove(&life) else { continue };
            for update in updates.into_values() {
                self.unmark(update);
            }
            if let Some(port) = port {
                self.peers.remove(&port);
                let text = String::from("nothing was heard of the updater");
                self.outputs.push_back(Output::End(port, GoodbyeReason::Silent, text));
            }
        }
    }
}
