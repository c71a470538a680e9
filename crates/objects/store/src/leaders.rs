//! Which redirector leads which group. Of two that want to, the one with the higher epoch does.
//!
//! ```text
//!   unknown --claim--> led --session ends--> without a leader --grace is over--> unknown
//!                       ^                           |
//!                       +--- claim of its epoch by the same redirector, or of a higher one
//! ```
//! 1. A group has one leader at most; of several that claim the same epoch it is the first.
//! 2. A session leads one group at most.
//!
//! All this is in memory. After a restart the first claim counts, whatever its epoch, until one with a higher epoch
//! comes: for that long a redirector that was taken over from may lead again. No page goes wrong by that, as each
//! redirector answers only for those who are with it.

use crate::{SessionId, Store};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use machine::Goodbye;
use messages::{FindLeader, Lead, Leader};
use types::limits::{ADDRESS_BYTES_MAX, GROUP_EPOCH_MAX, GROUP_NAME_BYTES_MAX};
use types::{ClientId, GoodbyeReason, Limits, Map, Time};

/// One group.
#[derive(Debug)]
struct Group {
    epoch: u64,
    address: String,
    /// The redirector, and its session or the last one that it had.
    client: ClientId,
    session: SessionId,
    /// If the leader's session has ended: until when it is remembered.
    until: Option<Time>,
}

impl Group {
    fn is_known(&self, now: Time) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Leaders {
    groups: BTreeMap<String, Group>,
    /// The group that a session leads.
    led_by: Map<SessionId, String>,
    groups_max: usize,
}

/// The outcome of a claim.
enum Claim {
    /// It counts. If another session led the group, it is over with that one.
    Won(Option<SessionId>),
    Lost,
}

impl Leaders {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { groups: BTreeMap::new(), led_by: Map::default(), groups_max: limits.groups }
    }

    /// The leader of the group. Of a group that was led within the grace the epoch is known, and no address.
    fn find(&self, now: Time, group: String) -> Leader {
        match self.groups.get(&group).filter(|known| known.is_known(now)) {
            Some(known) => {
                let address = if known.until.is_none() { known.address.clone() } else { String::new() };
                Leader { epoch: known.epoch, address, group }
            }
            None => Leader { group, epoch: 0, address: String::new() },
        }
    }

    /// The group that the session leads.
    pub(crate) fn led_by(&self, session: SessionId) -> Option<Leader> {
        let name = self.led_by.get(&session)?;
        let group = self.groups.get(name)?;
        Some(Leader { group: name.clone(), epoch: group.epoch, address: group.address.clone() })
    }

    /// A redirector claims a group.
    fn claim(&mut self, now: Time, session: SessionId, client: ClientId, lead: Lead) -> Claim {
        let Lead { group: name, epoch, address } = lead;
        let known = self.groups.get(&name).filter(|known| known.is_known(now));
        if known.is_some_and(|known| epoch < known.epoch || (epoch == known.epoch && client != known.client)) {
            return Claim::Lost;
        }
        if !self.groups.contains_key(&name) {
            self.make_room(now);
        }
        let before = self.groups.insert(name.clone(), Group { epoch, address, client, session, until: None });
        let previous = before.filter(|before| before.session != session && before.until.is_none());
        if let Some(previous) = &previous {
            self.led_by.remove(&previous.session);
        }
        self.led_by.insert(session, name);
        Claim::Won(previous.map(|previous| previous.session))
    }

    /// The session has ended; the group that it led is remembered until then.
    pub(crate) fn session_ended(&mut self, until: Time, session: SessionId) {
        let led = self.led_by.remove(&session).and_then(|name| self.groups.get_mut(&name));
        if let Some(group) = led {
            group.until = Some(until);
        }
    }

    /// Lets go of groups whose leader has been gone for too long, and, if that leaves no room, of the one whose leader
    /// has been gone for longest.
    fn make_room(&mut self, now: Time) {
        self.groups.retain(|_, group| group.is_known(now));
        if self.groups.len() < self.groups_max {
            return;
        }
        let gone = self.groups.iter().filter_map(|(name, group)| Some((group.until?, name)));
        if let Some(name) = gone.min().map(|(_, name)| name.clone()) {
            self.groups.remove(&name);
        }
    }
}

impl Store {
    /// A redirector takes a group over, or continues with it.
    pub(crate) fn lead(&mut self, now: Time, from: SessionId, lead: Lead) -> Result<(), Goodbye> {
        self.check_group(from)?;
        self.check_lead(from, &lead)?;
        let Some(client) = self.sessions.client(from) else { return Ok(()) };
        let group = lead.group.clone();
        let claim = self.leaders.claim(now, from, client, lead);
        let leader = self.leaders.find(now, group);
        if let Claim::Won(Some(previous)) = claim {
            // It tells its members where to go.
            self.reply(now, previous, leader.clone());
            self.end(now, previous, superseded(&leader));
        }
        self.reply(now, from, leader.clone());
        if matches!(claim, Claim::Lost) { Err(superseded(&leader)) } else { Ok(()) }
    }

    /// Somebody wants to know who leads a group.
    pub(crate) fn find_leader(&mut self, now: Time, from: SessionId, find: FindLeader) -> Result<(), Goodbye> {
        check_name(&find.group)?;
        let leader = self.leaders.find(now, find.group);
        self.reply(now, from, leader);
        Ok(())
    }

    fn check_lead(&self, from: SessionId, lead: &Lead) -> Result<(), Goodbye> {
        check_name(&lead.group)?;
        let bytes = lead.address.len();
        if !(1..=ADDRESS_BYTES_MAX).contains(&bytes) {
            let text = format!("expected a redirector's address of 1 to {ADDRESS_BYTES_MAX} bytes, got {bytes}");
            return Err(Goodbye::malformed(text));
        }
        if !(1..=GROUP_EPOCH_MAX).contains(&lead.epoch) {
            let text =
                format!("expected an epoch of group {:?} of 1 to {GROUP_EPOCH_MAX}, got {}", lead.group, lead.epoch);
            return Err(Goodbye::malformed(text));
        }
        match self.leaders.led_by.get(&from) {
            Some(led) if *led != lead.group => {
                let text = format!("expected one group of a session, got {:?} after {led:?}", lead.group);
                Err(Goodbye::malformed(text))
            }
            _ => Ok(()),
        }
    }
}

fn check_name(group: &str) -> Result<(), Goodbye> {
    let bytes = group.len();
    if !(1..=GROUP_NAME_BYTES_MAX).contains(&bytes) {
        let text = format!("expected a group's name of 1 to {GROUP_NAME_BYTES_MAX} bytes, got {bytes}");
        return Err(Goodbye::malformed(text));
    }
    Ok(())
}

/// The goodbye to a redirector whose group another one leads.
fn superseded(leader: &Leader) -> Goodbye {
    let Leader { group, epoch, address } = leader;
    let text = format!("epoch {epoch} of group {group:?} has taken over, at {address}");
    Goodbye { reason: GoodbyeReason::Superseded, text }
}
