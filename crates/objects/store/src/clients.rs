//! The clients: which sessions speak for each, and how long one that nobody speaks for is remembered.
//!
//! ```text
//!   unknown --hello, vouched for--> spoken for --the last who spoke for it ends--> gone --grace is over--> unknown
//!                                       ^                                           |
//!                                       +------------ hello, vouched for -----------+
//! ```
//! 1. A session of its own speaks for a client, and so does every group's session that vouches for it. On its way
//!    from one to the other a client has both for a while, in any order: it is gone when the last of them is.
//! 2. A client that is gone is known until the grace is over, then forgotten with everything that was kept for it.

use crate::SessionId;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use types::{ClientId, Map, Time};

/// The state of a client.
#[derive(Debug, Default)]
struct Client {
    epoch: u64,
    session: Option<SessionId>,
    /// How many groups' sessions vouch for it.
    vouchers: usize,
    /// If it is gone, until when it is remembered.
    until: Option<Time>,
}

/// All clients that are known.
#[derive(Debug)]
pub(crate) struct Clients {
    known: Map<ClientId, Client>,
    /// Those that are gone, by the time at which they are forgotten.
    gone: BTreeSet<(Time, ClientId)>,
    grace: Duration,
    gone_max: usize,
}

impl Clients {
    pub(crate) fn new(grace: Duration, gone_max: usize) -> Self {
        Self { known: Map::default(), gone: BTreeSet::new(), grace, gone_max }
    }

    /// A session says hello for a client; gives the session that it takes over from, or the epoch that fences it off.
    pub(crate) fn hello(&mut self, id: SessionId, client: ClientId, epoch: u64) -> Result<Option<SessionId>, u64> {
        if let Some(known) = self.known.get(&client)
            && (epoch < known.epoch || (epoch == known.epoch && known.session.is_some()))
        {
            return Err(known.epoch);
        }
        let known = self.come(client);
        known.epoch = epoch;
        Ok(known.session.replace(id))
    }

    /// A session of the client's own has ended.
    pub(crate) fn hung_up(&mut self, now: Time, id: SessionId, client: ClientId) {
        if let Some(known) = self.known.get_mut(&client)
            && known.session == Some(id)
        {
            known.session = None;
            self.go_unless_spoken_for(now, client);
        }
    }

    /// One more group's session speaks for the client.
    pub(crate) fn vouch(&mut self, client: ClientId) {
        self.come(client).vouchers += 1;
    }

    /// A group's session does not speak for the client any more.
    pub(crate) fn stop_vouching(&mut self, now: Time, client: ClientId) {
        if let Some(known) = self.known.get_mut(&client) {
            known.vouchers -= 1;
            self.go_unless_spoken_for(now, client);
        }
    }

    /// Something is kept for this client. If nobody knows it, it is one that was known before a restart, or was
    /// forgotten while a commit of it was under way, and has the grace to come for what is kept.
    pub(crate) fn expect_back(&mut self, now: Time, client: ClientId) {
        if !self.known.contains_key(&client) {
            self.known.insert(client, Client::default());
            self.go_unless_spoken_for(now, client);
        }
    }

    /// A client that did not come back in time, or one too many; it is forgotten here.
    pub(crate) fn pop_forgotten(&mut self, now: Time) -> Option<ClientId> {
        let &(until, client) = self.gone.first()?;
        if until > now && self.gone.len() <= self.gone_max {
            return None;
        }
        self.gone.pop_first();
        self.known.remove(&client);
        Some(client)
    }

    /// When the next client should be forgotten.
    pub(crate) fn next_forgotten(&self) -> Option<Time> {
        self.gone.first().map(|(until, _)| *until)
    }

    /// Somebody speaks for the client: it is not gone.
    fn come(&mut self, client: ClientId) -> &mut Client {
        let known = self.known.entry(client).or_default();
        if let Some(until) = known.until.take() {
            self.gone.remove(&(until, client));
        }
        known
    }

    fn go_unless_spoken_for(&mut self, now: Time, client: ClientId) {
        let Some(known) = self.known.get_mut(&client) else { return };
        if known.session.is_none() && known.vouchers == 0 {
            let until = now + self.grace;
            known.until = Some(until);
            self.gone.insert((until, client));
        }
    }
}

/// The clients that one group's session vouches for, in the order in which it named them last.
#[derive(Debug, Default)]
pub(crate) struct Vouched {
    turns: Map<ClientId, u64>,
    order: BTreeMap<u64, ClientId>,
    last_turn: u64,
}

impl Vouched {
    /// The session has named the client; says whether it is new here.
    pub(crate) fn name(&mut self, client: ClientId) -> bool {
        self.last_turn += 1;
        let before = self.turns.insert(client, self.last_turn);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.last_turn, client);
        before.is_none()
    }

    /// Takes the client out; says whether it was there.
    pub(crate) fn remove(&mut self, client: ClientId) -> bool {
        let turn = self.turns.remove(&client);
        turn.is_some_and(|turn| self.order.remove(&turn).is_some())
    }

    /// If there are more clients than `limit`: takes out the one that was not named for the longest time.
    pub(crate) fn pop_over(&mut self, limit: usize) -> Option<ClientId> {
        if self.turns.len() <= limit {
            return None;
        }
        let (_, client) = self.order.pop_first()?;
        self.turns.remove(&client);
        Some(client)
    }

    /// All of them.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.order.values().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }
}
