//! The homes of a hub, and their leases.

use super::lease::{longer, shorter};
use super::{Hub, HubConfig, Peer};
use crate::messages::hub::{Join, Lease, Mark, Reset, UpdateId};
use crate::rule::Rule;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use machine::{LOCAL, Output, Port};
use types::lease::millis;
use types::limits::HOMES_MAX;
use types::{GoodbyeReason, Time};

const WITHOUT_SOURCE: &str =
    "the watcher of this hub does not speak for its source: another hub may have one that does";

/// The link to the home of the hub's own process.
const HERE: Port = Port::Session(LOCAL);

/// The number of a lease's holder: one that joins while another of the same life is there is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HolderId(pub(super) u64);

/// A home, as its hub knows it.
#[derive(Debug)]
pub(super) struct Holder {
    life: u64,
    pub(super) port: Option<Port>,
    /// When its lease is over.
    pub(super) until: Time,
}

impl Hub {
    /// How long a lease of a home may be now.
    fn home_lease(&self, now: Time) -> Duration {
        let HubConfig { lease, within_source, broken, .. } = self.config;
        if !within_source || broken.is(Rule::LeaseWithinSource) {
            return lease;
        }
        lease.min(shorter(self.source_until.since(now), broken))
    }

    /// When the source of this process has given no lease for as long as one lasts.
    pub(super) fn without_source_at(&self) -> Time {
        self.begun.max(self.source_until) + self.config.lease
    }

    /// Whether homes are to look for another hub, which may have the source.
    fn is_without_source(&self, now: Time) -> bool {
        let HubConfig { within_source, broken, .. } = self.config;
        within_source && !broken.is(Rule::LeaseWithinSource) && now >= self.without_source_at()
    }

    /// The homes that are owed a lease, but for that of the hub's own process: it has no other hub.
    pub(super) fn owed_apart(&self) -> impl Iterator<Item = HolderId> {
        let port = |holder| self.homes.get(holder).and_then(|home| home.port);
        self.owed.keys().filter(move |&holder| port(holder).is_some_and(|port| port != HERE)).copied()
    }

    /// Sends homes away that wait for a lease of the source in vain.
    pub(super) fn send_away(&mut self, now: Time) {
        if !self.is_without_source(now) {
            return;
        }
        for holder in self.owed_apart().collect::<Vec<_>>() {
            self.owed.remove(&holder);
            if let Some(port) = self.homes.get_mut(&holder).and_then(|home| home.port.take()) {
                self.peers.remove(&port);
                self.outputs.push_back(Output::End(port, GoodbyeReason::CutOff, String::from(WITHOUT_SOURCE)));
            }
        }
    }

    /// A home begins again with all marks that are outstanding.
    pub(super) fn join(&mut self, now: Time, port: Port, Join { life, asked }: Join) {
        // It is not welcomed first: so the next hub of those that it knows is tried.
        if port != HERE && self.is_without_source(now) {
            return self.outputs.push_back(Output::End(port, GoodbyeReason::CutOff, String::from(WITHOUT_SOURCE)));
        }
        // The same home comes again when its session was lost. While the session of another one of that life continues,
        // one of the two is a copy of the other, and each is waited for.
        self.homes.retain(|_, home| match home.port {
            None => home.life != life && now < home.until,
            Some(_) => true,
        });
        self.owed.retain(|holder, _| self.homes.contains_key(holder));
        if self.homes.len() >= HOMES_MAX {
            let text = format!("a hub has at most {HOMES_MAX} homes");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::Full, text));
        }
        self.last_holder.0 += 1;
        let holder = self.last_holder;
        self.homes.insert(holder, Holder { life, port: Some(port), until: Time::ZERO });
        self.peers.insert(port, Peer::Home(holder));
        self.say(port, Reset);
        let mut outstanding = Vec::new();
        for (&update, under_way) in &mut self.updates {
            under_way.awaited.insert(holder);
            outstanding.push(Mark { update, dependencies: under_way.dependencies.clone() });
        }
        if !self.config.broken.is(Rule::JoinWithMarks) {
            for mark in outstanding {
                self.say(port, mark);
            }
        }
        self.lease_home(now, holder, asked);
    }

    /// A home has taken back its lease: no request waits for it.
    pub(super) fn leave(&mut self, now: Time, holder: HolderId) {
        self.homes.remove(&holder);
        self.owed.remove(&holder);
        self.release_all(now);
    }

    /// Returns a home its lease, behind everything that it was told before.
    pub(super) fn lease_home(&mut self, now: Time, holder: HolderId, asked: Time) {
        let lease = self.config.lease;
        let waits_for = |update: &UpdateId| {
            let under_way = &self.updates[update];
            under_way.begun + lease <= now && under_way.awaited.contains(&holder)
        };
        let is_stuck = self.waiting.iter().any(waits_for);
        let Some(home) = self.homes.get(&holder) else { return };
        let Some(port) = home.port else { return };
        if is_stuck && home.until > Time::ZERO {
            let text = String::from("the home asks for its lease, but does not mark what it was told of");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::Silent, text));
        }
        let lease = self.home_lease(now);
        if millis(lease) == 0 {
            self.owed.insert(holder, asked);
            return;
        }
        let Some(home) = self.homes.get_mut(&holder) else { return };
        home.until = home.until.max(now + longer(lease, self.config.broken));
        self.say(port, Lease { asked, lease_ms: millis(lease) });
    }
}
