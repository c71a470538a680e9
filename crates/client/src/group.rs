//! Which way to the store: by the redirector of our group, by the one that takes over from it, or directly.
//!
//! ```text
//!   in the group --the session is lost--> the same redirector once more, unless it fell silent or sent us away
//!        ^                                  |
//!        |                                the eligible members, longest there first; where that is us, we take over
//!        |                                  |
//!        |                                as configured, then the store itself
//!        |                                  |
//!        +---the store names the leader---- a group of one, which asks for the leader with every sign of life
//!
//!   in the group --its redirector names another that leads--> there, and if that cannot be reached, on as above
//! ```
//! 1. Every member knows the others in one order, so all go to the same one.
//! 2. The cache stays on all these ways, and what is committed is committed once: who answers compares what we bring.
//! 3. Nobody waits for a group: as long as the store can be reached, there is a way.

use crate::{Client, Output};
use alloc::collections::VecDeque;
use alloc::string::String;
use core::time::Duration;
use protocol::{FindLeader, Leader, Members, Message};
use types::{GoodbyeReason, Time};

/// How long we rest after we have tried to take over, or to go from a group of one to its leader: should it not work, it
/// is not tried all the time.
const REST: Duration = Duration::from_secs(10);

/// A way that the next session may take.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Somebody else at this address.
    To(String),
    /// Us, at this address.
    TakeOver(String),
    /// Whatever was configured.
    Configured,
}

/// What is known of our group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The last that its redirector told of it.
    members: Option<Members>,
    /// The highest epoch that we know of.
    epoch: u64,
    /// Ways that were not tried since the last session.
    ways: VecDeque<Way>,
    /// The session was ended by its other end, or fell silent: it is of no use to go there at once.
    was_left: bool,
    /// Who leads, as the redirector has told that does not.
    told: Option<String>,
    /// A group of one does not leave its store for a leader until then: it has just tried.
    stay_until: Time,
    /// Until then we do not take over again.
    rest_until: Time,
}

impl Group {
    /// The other end wants no more of the session, or does not live.
    pub(crate) fn leave(&mut self) {
        self.was_left = true;
    }
}

impl Client {
    /// Where the next attempt at a session is to go: an address, or `None` for as configured. Each call is for an
    /// attempt of its own, after the one before has failed or its session has ended.
    pub fn way(&mut self, now: Time) -> Option<String> {
        match self.group.ways.pop_front()? {
            Way::To(address) => Some(address),
            Way::TakeOver(address) if now < self.group.rest_until => Some(address),
            Way::TakeOver(address) => {
                self.group.epoch += 1;
                self.group.rest_until = now + REST;
                self.outputs.push_back(Output::Lead { epoch: self.group.epoch });
                Some(address)
            }
            Way::Configured => None,
        }
    }

    /// The session is gone: lays out the ways to another, if it was in a group or its redirector has named another.
    pub(crate) fn lose_group(&mut self) {
        let (was_left, told) = (core::mem::take(&mut self.group.was_left), self.group.told.take());
        let mut ways: VecDeque<_> = told.into_iter().map(Way::To).collect();
        if let Some(members) = self.group.members.as_ref().filter(|_| self.session.in_group) {
            if !was_left {
                ways.push_back(Way::To(members.address.clone()));
            }
            let eligible = members.members.iter().filter(|member| !member.address.is_empty());
            for member in eligible.filter(|member| member.address != members.address || member.client == self.id) {
                let address = member.address.clone();
                ways.push_back(if member.client == self.id { Way::TakeOver(address) } else { Way::To(address) });
            }
            ways.push_back(Way::Configured);
            ways.extend(members.store.iter().cloned().map(Way::To));
        }
        if !ways.is_empty() {
            self.group.ways = ways;
        }
    }

    /// The redirector tells who the members are.
    pub(crate) fn members(&mut self, members: Members) {
        self.group.epoch = self.group.epoch.max(members.epoch);
        self.group.ways.clear();
        self.group.members = Some(members);
    }

    /// A group of one that knows of a group asks who leads it.
    pub(crate) fn find_leader(&mut self, now: Time) {
        let known = self.group.members.as_ref().map(|members| &members.group);
        let group = self.config.group.as_ref().or(known).cloned();
        if let Some(group) = group.filter(|_| self.session.is_live() && !self.session.in_group)
            && now >= self.group.stay_until
        {
            self.send(now, Message::FindLeader(FindLeader { group }));
        }
    }

    /// We hear who leads: there we go. Where nobody does, we may be the one.
    pub(crate) fn leader(&mut self, now: Time, leader: Leader) {
        self.group.epoch = self.group.epoch.max(leader.epoch);
        let is_direct = self.session.is_live() && !self.session.in_group;
        if !is_direct {
            // Our redirector says so, or the one that we have tried; it ends the session next.
            self.group.told = Some(leader.address).filter(|address| !address.is_empty());
            return;
        }
        let own = self.neighbours.eligible().map(String::from);
        let way = match own {
            Some(own) if leader.address.is_empty() || leader.address == own => Way::TakeOver(own),
            None if leader.address.is_empty() => return,
            _ => Way::To(leader.address),
        };
        if now < self.group.stay_until {
            return;
        }
        self.group.stay_until = now + REST;
        self.group.ways = VecDeque::from([way]);
        self.hang_up(now, GoodbyeReason::Done, "the group is led again".into());
    }
}
