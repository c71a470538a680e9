//! The sessions of the members: their identities, their states, and when they are dead.
//!
//! ```text
//!   connected --> AwaitHello --hello--> AwaitUpstream --the store is reached--> AwaitResume --last resume--> Revalidating
//!                     |                     |                                     |                             |
//!                     |                     |                                     |        all is compared --> Joined
//!                     +------------ end, disconnected, silence -------------------+-----------------------------+--> gone
//! ```
//! 1. A member has at most one session past hello: the one with the highest epoch.
//! 2. A member that is gone leaves the directory and the acknowledgements at once. It is known for a while, so that its
//!    older sessions stay fenced off and its grants its own; then it has departed, and the store learns of it.

use crate::Redirector;
use crate::outputs::Outputs;
use crate::resume::Brought;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use directory::{Acks, Streams};
use machine::Goodbye;
use messages::{Departed, Fetch, Hello, Leader, Reachable, Resume};
use types::{ClientId, GoodbyeReason, Limits, Map, PageId, PeerKey, SessionId, Time, Vector};

/// How long a member that is gone is known.
const ABSENCE: Duration = Duration::from_secs(30);

/// How long pages take the way by the redirector after the direct one between two members has failed.
const DETOUR: Duration = Duration::from_secs(5);

/// The hello of a member that comes, as far as it has been told.
#[derive(Debug, Default)]
pub(crate) struct Resuming {
    /// Its horizon, which does not move until everything that it holds is compared.
    pub(crate) horizon: Vector,
    /// Pages that it brings.
    pub(crate) pages: Vec<messages::Held>,
    /// How many it says that it was granted and has not filled.
    pub(crate) granted: u64,
    /// Those of them that were granted to it and that it has not filled.
    pub(crate) claimed: Vec<PageId>,
    /// Pages that it is to drop.
    pub(crate) dropped: Vec<PageId>,
}

#[derive(Debug)]
enum Stage {
    AwaitHello,
    /// With the part of its cache that it has told of.
    AwaitUpstream(Hello, Brought),
    AwaitResume(Resuming),
    Revalidating(Resuming),
    Joined,
}

#[derive(Debug)]
struct Member {
    client: Option<ClientId>,
    stage: Stage,
    heard: Time,
    /// Fetches that it has outstanding.
    fetches: usize,
    /// Counts that it has brought, of nodes that were away as it came.
    believed: Vector,
    /// Where its peers reach it, if they can, and where members would as their redirector, if it is eligible.
    reachable: Reachable,
    /// The peers that could not reach it directly of late, and until when that is not tried again.
    detours: Vec<(SessionId, Time)>,
}

/// The state of a client, in a session or gone.
#[derive(Debug)]
struct Known {
    epoch: u64,
    session: Option<SessionId>,
    /// Counts its departures, so that an old entry in the queue of the absent is known for old.
    departures: u64,
    /// Its place in the order in which members came.
    place: u64,
}

/// All members, and the news that waits for each (see `update`).
#[derive(Debug)]
pub(crate) struct Members {
    live: Map<SessionId, Member>,
    clients: Map<ClientId, Known>,
    absent: VecDeque<(Time, ClientId, u64)>,
    pub(crate) streams: Streams<SessionId>,
    /// Acknowledged counts of the joined members.
    acked: Acks<SessionId>,
    /// When the silent are looked for next.
    sweep: Option<Time>,
    /// How many clients have come.
    came: u64,
    limits: Limits,
}

impl Members {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            live: Map::default(),
            clients: Map::default(),
            absent: VecDeque::new(),
            streams: Streams::new(Duration::ZERO, limits),
            acked: Acks::default(),
            sweep: None,
            came: 0,
            limits,
        }
    }

    /// A connection has come in; says whether there is room for it.
    pub(crate) fn connect(&mut self, now: Time, id: SessionId) -> bool {
        if self.live.len() >= self.limits.members {
            return false;
        }
        let member = Member {
            client: None,
            stage: Stage::AwaitHello,
            heard: now,
            fetches: 0,
            believed: Vector::new(),
            reachable: Reachable::default(),
            detours: Vec::new(),
        };
        self.live.insert(id, member);
        true
    }

    /// A heartbeat; says whether the session still counts.
    pub(crate) fn hear(&mut self, now: Time, id: SessionId) -> bool {
        self.live.get_mut(&id).map(|member| member.heard = now).is_some()
    }

    /// The client of a session past hello.
    pub(crate) fn client(&self, id: SessionId) -> Option<ClientId> {
        self.live.get(&id)?.client
    }

    /// The session of a client, if it has joined.
    pub(crate) fn session(&self, client: ClientId) -> Option<SessionId> {
        self.clients.get(&client)?.session.filter(|&session| self.is_joined(session))
    }

    pub(crate) fn is_joined(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|member| matches!(member.stage, Stage::Joined))
    }

    /// Whether it has been welcomed.
    pub(crate) fn is_welcome(&self, id: SessionId) -> bool {
        let is_waiting = |member: &Member| matches!(member.stage, Stage::AwaitHello | Stage::AwaitUpstream(..));
        self.live.get(&id).is_some_and(|member| !is_waiting(member))
    }

    fn is_here(&self, id: SessionId) -> bool {
        self.live.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// All sessions, in order.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        let mut all: Vec<_> = self.live.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The member's state while it reports its cache.
    pub(crate) fn resuming(&mut self, id: SessionId) -> Option<&mut Resuming> {
        match &mut self.live.get_mut(&id)?.stage {
            Stage::AwaitResume(resuming) => Some(resuming),
            _ => None,
        }
    }

    /// The member has told all; its pages are compared from here on.
    pub(crate) fn revalidate(&mut self, id: SessionId) -> Option<&mut Resuming> {
        let stage = &mut self.live.get_mut(&id)?.stage;
        let Stage::AwaitResume(resuming) = stage else { return None };
        *stage = Stage::Revalidating(core::mem::take(resuming));
        if let Stage::Revalidating(resuming) = stage { Some(resuming) } else { None }
    }

    /// Everything that the member brings is compared: it is one of us, and its acknowledgements count.
    pub(crate) fn join(&mut self, id: SessionId) -> Option<Resuming> {
        let stage = &mut self.live.get_mut(&id)?.stage;
        let Stage::Revalidating(resuming) = stage else { return None };
        let resumed = core::mem::take(resuming);
        *stage = Stage::Joined;
        self.acked.join(id, resumed.horizon.clone());
        Some(resumed)
    }

    /// The counts that the member has brought, of nodes that were away then and are since.
    pub(crate) fn believed(&self, id: SessionId) -> Vector {
        self.live.get(&id).map_or_else(Vector::new, |member| member.believed.clone())
    }

    /// The member is believed to have learned of these counts.
    pub(crate) fn believe(&mut self, id: SessionId, counts: Vector) {
        if let Some(member) = self.live.get_mut(&id) {
            member.believed = counts;
        }
    }

    /// The member has applied everything through these counts. A member that comes from elsewhere may be ahead of the
    /// redirector; the group's acknowledgement is never ahead of the redirector's horizon.
    pub(crate) fn ack(&mut self, id: SessionId, through: &Vector) {
        self.acked.ack(id, through);
    }

    /// The counts through which the member has applied everything.
    pub(crate) fn acked(&self, id: SessionId) -> Option<&Vector> {
        self.acked.of(id)
    }

    /// The least counts that all members have applied, if there is any.
    pub(crate) fn least_acked(&self) -> Option<Vector> {
        self.acked.least()
    }

    /// One of the member's fetches has its answer.
    pub(crate) fn has_answered(&mut self, id: SessionId) {
        if let Some(outstanding) = self.fetches(id) {
            *outstanding = outstanding.saturating_sub(1);
        }
    }

    /// Refuses to continue with a member that speaks for another client.
    pub(crate) fn check_own(&self, id: SessionId, client: ClientId) -> Result<(), Goodbye> {
        match self.client(id) {
            Some(own) if own != client => {
                Err(Goodbye::malformed(format!("expected a transaction of {own:?}, got one of {client:?}")))
            }
            _ => Ok(()),
        }
    }

    /// The session has said hello, and waits for the store to be reached.
    fn await_upstream(&mut self, id: SessionId, hello: Hello) {
        if let Some(member) = self.live.get_mut(&id) {
            member.stage = Stage::AwaitUpstream(hello, Brought::default());
        }
    }

    /// The session is the client's from here on; gives the one that it takes over from.
    fn greet(&mut self, id: SessionId, client: ClientId, epoch: u64) -> Result<Option<SessionId>, Goodbye> {
        let Some(member) = self.live.get_mut(&id) else { return Ok(None) };
        self.came += 1;
        let place = self.came;
        let known = self.clients.entry(client).or_insert(Known { epoch, session: None, departures: 0, place });
        if epoch < known.epoch || (epoch == known.epoch && known.session.is_some()) {
            let text = format!("expected an epoch of {client:?} after {}, got {epoch}", known.epoch);
            return Err(Goodbye { reason: GoodbyeReason::Superseded, text });
        }
        known.epoch = epoch;
        (member.client, member.stage) = (Some(client), Stage::AwaitResume(Resuming::default()));
        Ok(known.session.replace(id))
    }

    /// The sessions that have said hello, and whose they are.
    pub(crate) fn all_clients(&self) -> Vec<(SessionId, ClientId)> {
        let client = |member: &Member| match &member.stage {
            Stage::AwaitUpstream(hello, _) => Some(hello.client),
            _ => member.client,
        };
        let mut all: Vec<_> = self.live.iter().filter_map(|(&id, member)| Some((id, client(member)?))).collect();
        all.sort_unstable();
        all
    }

    /// The sessions that have said hello and wait for the store.
    pub(crate) fn take_waiting(&mut self) -> Vec<(SessionId, Hello, Brought)> {
        let mut waiting = Vec::new();
        for (&id, member) in &mut self.live {
            if let Stage::AwaitUpstream(hello, brought) = &mut member.stage {
                waiting.push((id, hello.clone(), core::mem::take(brought)));
                member.stage = Stage::AwaitHello;
            }
        }
        waiting.sort_unstable_by_key(|(id, ..)| *id);
        waiting
    }

    /// Whether the session waits for the store to be reached.
    pub(crate) fn is_waiting(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|member| matches!(member.stage, Stage::AwaitUpstream(..)))
    }

    /// A member that is not welcome yet has told of its cache: that is listed when the member is.
    pub(crate) fn keep_resume(&mut self, from: SessionId, resume: Resume) -> Result<(), Goodbye> {
        self.brought(from).map_or(Ok(()), |brought| brought.add(resume))
    }

    /// A member that is not welcome yet asks for a page: it is answered when the member is.
    pub(crate) fn keep_fetch(&mut self, from: SessionId, fetch: Fetch) -> Result<(), Goodbye> {
        self.brought(from).map_or(Ok(()), |brought| brought.ask(fetch))
    }

    /// The cache that a session which waits for the store has told of so far.
    fn brought(&mut self, id: SessionId) -> Option<&mut Brought> {
        match &mut self.live.get_mut(&id)?.stage {
            Stage::AwaitUpstream(_, brought) => Some(brought),
            _ => None,
        }
    }

    /// Tells those who wait to be welcome, and will not be, which group this is: elsewhere they ask who leads it.
    pub(crate) fn tell_group(&self, group: &str, out: &mut Outputs) {
        for session in self.all() {
            if self.is_waiting(session) {
                out.send(session, Leader { group: group.into(), epoch: 0, address: String::new() });
            }
        }
    }

    /// How many fetches the member has outstanding.
    pub(crate) fn fetches(&mut self, id: SessionId) -> Option<&mut usize> {
        self.live.get_mut(&id).map(|member| &mut member.fetches)
    }

    /// The joined members, longest there first, and where each would be reached as the redirector.
    pub(crate) fn in_order(&self) -> Vec<(SessionId, ClientId, &str)> {
        let joined = self.live.iter().filter(|(_, member)| matches!(member.stage, Stage::Joined));
        let mut joined: Vec<_> =
            joined.filter_map(|(&id, member)| Some((id, member.client?, member.reachable.eligible.as_str()))).collect();
        joined.sort_unstable_by_key(|(_, client, _)| self.clients.get(client).map(|known| known.place));
        joined
    }

    /// Where peers reach the member.
    pub(crate) fn reach(&mut self, id: SessionId, reachable: Reachable) {
        if let Some(member) = self.live.get_mut(&id) {
            member.reachable = reachable;
        }
    }

    /// Where members would reach the member as their redirector; empty if it is not eligible.
    pub(crate) fn eligible(&self, id: SessionId) -> &str {
        self.live.get(&id).map_or("", |member| &member.reachable.eligible)
    }

    /// Where `helper` reaches `requester` directly, and what it is let in by there; an empty address if it does not.
    pub(crate) fn direct(&self, now: Time, requester: SessionId, helper: SessionId) -> (String, PeerKey) {
        let is_detour = |member: &Member| member.detours.iter().any(|(of, until)| *of == helper && *until > now);
        let member = self.live.get(&requester).filter(|member| !is_detour(member));
        member.map(|member| (member.reachable.address.clone(), member.reachable.key)).unwrap_or_default()
    }

    /// The page that `helper` sent to `requester` did not arrive.
    pub(crate) fn take_detour(&mut self, now: Time, requester: SessionId, helper: SessionId) {
        if let Some(member) = self.live.get_mut(&requester) {
            member.detours.retain(|(of, until)| *of != helper && *until > now);
            member.detours.push((helper, now + DETOUR));
        }
    }

    /// When something is due: the silent are looked for, or somebody has departed.
    pub(crate) fn next_due(&self, silence: Duration) -> Option<Time> {
        let sweep = if self.live.is_empty() { None } else { Some(self.sweep.unwrap_or(Time::ZERO + silence / 4)) };
        let departs = self.absent.front().map(|(until, ..)| *until);
        sweep.into_iter().chain(departs).min()
    }

    /// The session is gone; its client may come back.
    fn disconnect(&mut self, now: Time, id: SessionId) {
        self.streams.close(id);
        self.acked.leave(id);
        let Some(client) = self.live.remove(&id).and_then(|member| member.client) else { return };
        if let Some(known) = self.clients.get_mut(&client)
            && known.session == Some(id)
        {
            known.session = None;
            known.departures += 1;
            self.absent.push_back((now + ABSENCE, client, known.departures));
        }
    }

    /// The clients that are gone and may come back, the one that has been away for longest first.
    pub(crate) fn absent(&self) -> impl Iterator<Item = ClientId> + '_ {
        let clients = self.absent.iter().map(|(_, client, _)| *client);
        clients.filter(|client| self.clients.get(client).is_some_and(|known| known.session.is_none()))
    }

    /// A client that did not come back in time, or one too many; it is no longer known.
    fn pop_departed(&mut self, now: Time) -> Option<ClientId> {
        while let Some(&(until, client, departures)) = self.absent.front()
            && (until <= now || self.absent.len() > self.limits.gone_members)
        {
            self.absent.pop_front();
            let known = self.clients.get(&client);
            if known.is_some_and(|known| known.session.is_none() && known.departures == departures) {
                self.clients.remove(&client);
                return Some(client);
            }
        }
        None
    }

    /// The sessions that gave no heartbeat for this long. All are looked at, a few times in that time.
    fn silent_for(&mut self, now: Time, silence: Duration) -> Vec<SessionId> {
        if self.sweep.is_some_and(|sweep| now < sweep) {
            return Vec::new();
        }
        self.sweep = Some(now + silence / 4);
        let silent = self.live.iter().filter(|(_, member)| now.since(member.heard) >= silence);
        let mut silent: Vec<_> = silent.map(|(id, _)| *id).collect();
        silent.sort_unstable();
        silent
    }
}

impl Redirector {
    /// A member says who it is. It is welcome when the store is reached.
    pub(crate) fn hello(&mut self, now: Time, from: SessionId, hello: Hello) -> Result<(), Goodbye> {
        if self.members.client(from).is_some() {
            return Err(Goodbye::malformed(format!("expected one hello, got another of {:?}", hello.client)));
        }
        self.admit(now, from, hello)
    }

    pub(crate) fn admit(&mut self, now: Time, from: SessionId, hello: Hello) -> Result<(), Goodbye> {
        if !self.members.is_here(from) {
            return Ok(());
        }
        let (client, epoch) = (hello.client, hello.epoch);
        if !self.is_open() {
            self.members.await_upstream(from, hello);
            if self.leadership.knocked(now, client, &mut self.out) {
                self.tell_arbiter(now);
            }
            return Ok(());
        }
        hello.agree(self.nodes.store().cluster)?;
        if let Some(old) = self.members.greet(from, client, epoch)? {
            let text = format!("{client:?} has a newer session, of epoch {epoch}");
            self.end(now, old, Goodbye { reason: GoodbyeReason::Superseded, text });
        }
        self.members.streams.open(from);
        let welcome = self.nodes.welcome(&self.config);
        self.out.send(from, welcome);
        Ok(())
    }

    /// Ends a session, telling the member why.
    pub(crate) fn end(&mut self, now: Time, session: SessionId, why: Goodbye) {
        self.forget_member(now, session);
        self.out.end(session, why);
    }

    /// Sends all members away: they may find another way to the store.
    pub(crate) fn send_all_away(&mut self, now: Time, text: &str) {
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason: GoodbyeReason::CutOff, text: text.into() });
        }
    }

    /// Nothing of the session stays. The pages that it had asked of others go elsewhere, and those that others wait for
    /// from it too.
    pub(crate) fn forget_member(&mut self, now: Time, session: SessionId) {
        self.members.disconnect(now, session);
        self.leadership.tell_members_soon(now);
        self.revalidations.forget(session);
        self.grants.forget_waiter(session);
        self.forget_syncs(session);
        for at in self.nodes.all() {
            self.nodes[at].fetches.forget(session);
        }
        for page in self.holders.forget(session) {
            self.release_if_unheld(now, page);
        }
        self.helper_is_gone(now, session);
    }

    /// Ends the sessions that gave no heartbeat for too long.
    pub(crate) fn end_silent(&mut self, now: Time) {
        let silence = self.config.silence;
        for session in self.members.silent_for(now, silence) {
            let text = format!("expected a heartbeat within {silence:?}");
            self.end(now, session, Goodbye { reason: GoodbyeReason::Silent, text });
        }
    }

    /// Lets go of the state that was kept for members that did not come back.
    pub(crate) fn let_depart(&mut self, now: Time) {
        while let Some(client) = self.members.pop_departed(now) {
            self.grants.depart(client);
            for at in self.nodes.all() {
                if self.nodes[at].session.is_live() {
                    self.send_to(now, at, Departed { client });
                }
            }
        }
    }
}
