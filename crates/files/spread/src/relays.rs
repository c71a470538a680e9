//! The relays of a group: one for each space whose sites members follow.
//!
//! ```text
//!   members of sites of 'main' ---- relay of 'main' ---- n2, where these sites are
//!   members of sites of 'docs' ---- relay of 'docs' ---- n3
//! ```
//! The spaces of a store of several nodes are at different nodes, and move. So each relay has a session of its own,
//! which goes where the sites of its space are. A member's session is for the space that it names first.

use crate::messages::{Refusal, Refused, SUBSCRIBER, ToFileServer};
use crate::number::Number;
use crate::relay::{Figures, Relay, RelayConfig};
use crate::tables::RELAY;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use framing::upstream;
use machine::{Machine, Output, Parcel, Port, Table, UpstreamId};
use types::limits::{SPACES_RELAYED_MAX, WANTS_PER_SESSION_MAX};
use types::{GoodbyeReason, Time};

/// The relays.
#[derive(Debug)]
pub struct Relays {
    config: RelayConfig,
    /// Where the store is.
    addresses: Vec<String>,
    running: BTreeMap<UpstreamId, OfSpace>,
    spaces: BTreeMap<String, UpstreamId>,
    /// The members' sessions, and their relays.
    sessions: BTreeMap<Port, UpstreamId>,
    /// Messages of sessions that have named no space yet.
    outside: BTreeMap<Port, Vec<ToFileServer>>,
    last: u64,
    outputs: VecDeque<Output>,
}

/// The relay of a space.
#[derive(Debug)]
struct OfSpace {
    space: String,
    relay: Relay,
    sessions: BTreeSet<Port>,
}

impl Relays {
    /// Relays of the store at these addresses. Each keeps its part of the bytes of chunks.
    pub fn new(config: RelayConfig, addresses: Vec<String>) -> Self {
        Self {
            config,
            addresses,
            running: BTreeMap::new(),
            spaces: BTreeMap::new(),
            sessions: BTreeMap::new(),
            outside: BTreeMap::new(),
            last: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Carries out what a relay wants, in whose terms its file server is its only one.
    fn drain(&mut self, id: UpstreamId) {
        let Some(of) = self.running.get_mut(&id) else { return };
        let here = |port| if port == Port::SERVER { Port::Upstream(id) } else { port };
        while let Some(output) = of.relay.poll_output() {
            self.outputs.push_back(match output {
                Output::Send(port, message, position) => Output::Send(here(port), message, position),
                Output::End(port, reason, text) => Output::End(here(port), reason, text),
                Output::AwaitRoom(port) => Output::AwaitRoom(here(port)),
                other => other,
            });
        }
    }

    fn with(&mut self, id: UpstreamId, call: impl FnOnce(&mut Relay)) {
        if let Some(of) = self.running.get_mut(&id) {
            call(&mut of.relay);
        }
        self.drain(id);
    }

    /// The relay of a space, which begins now if there is none; none if there are too many.
    fn of_space(&mut self, now: Time, space: &str) -> Option<UpstreamId> {
        if let Some(id) = self.spaces.get(space) {
            return Some(*id);
        }
        if self.running.len() >= SPACES_RELAYED_MAX {
            return None;
        }
        self.last += 1;
        let id = UpstreamId(self.last);
        let mut relay = Relay::new(self.config.clone());
        relay.start(now);
        let space = space.to_owned();
        self.running.insert(id, OfSpace { space: space.clone(), relay, sessions: BTreeSet::new() });
        self.spaces.insert(space, id);
        self.outputs.push_back(Output::Open(id, upstream(SUBSCRIBER, self.addresses.clone())));
        self.share_room();
        Some(id)
    }

    /// Ends the unused relays.
    fn end_unused(&mut self) {
        let is_unused = |of: &OfSpace| of.sessions.is_empty() && of.relay.is_unused();
        let unused: Vec<UpstreamId> = self.running.iter().filter(|(_, of)| is_unused(of)).map(|(id, _)| *id).collect();
        for id in &unused {
            if let Some(of) = self.running.remove(id) {
                self.spaces.remove(&of.space);
            }
            self.outputs.push_back(Output::Close(*id));
        }
        if !unused.is_empty() {
            self.share_room();
        }
    }

    fn share_room(&mut self) {
        let each = self.config.cache_bytes / self.running.len().max(1);
        self.running.values_mut().for_each(|of| of.relay.keep_bytes(each));
    }

    /// Hears a session's first messages. Returns its relay once it has named a space.
    fn admit(&mut self, now: Time, port: Port, message: ToFileServer) {
        let held = self.outside.entry(port).or_default();
        let space = match &message {
            ToFileServer::Join(join) => Some(join.space.clone()),
            ToFileServer::Enter(enter) => Some(enter.space.clone()),
            _ => None,
        };
        held.push(message);
        let Some(space) = space else {
            if held.len() > WANTS_PER_SESSION_MAX {
                self.end(port, GoodbyeReason::TooMuch, "too much before a space is named");
            } else if let Some(refused) = held.last().and_then(refusal_before_a_space) {
                held.pop();
                self.outputs.push_back(Output::Send(port, Parcel::new(refused), None));
            }
            return;
        };
        let Some(id) = self.of_space(now, &space) else {
            return self.end(port, GoodbyeReason::Full, "sites of too many spaces are followed here");
        };
        if let Some(of) = self.running.get_mut(&id) {
            of.sessions.insert(port);
        }
        self.sessions.insert(port, id);
        for message in self.outside.remove(&port).unwrap_or_default() {
            self.with(id, |relay| relay.handle(now, port, Parcel::new(message)));
        }
    }

    fn end(&mut self, port: Port, reason: GoodbyeReason, why: &str) {
        self.outside.remove(&port);
        self.outputs.push_back(Output::End(port, reason, why.to_owned()));
    }
}

/// The answer to a request that no relay grants, whatever its space.
fn refusal_before_a_space(message: &ToFileServer) -> Option<crate::messages::FromFileServer> {
    let ticket = match message {
        ToFileServer::Have(have) => have.ticket,
        ToFileServer::Put(put) => put.ticket,
        ToFileServer::Switch(switch) => switch.ticket,
        ToFileServer::Change(change) => change.ticket,
        ToFileServer::Collect(collect) => collect.ticket,
        ToFileServer::Survey(survey) => survey.ticket,
        ToFileServer::Lock(lock) => lock.identity.number,
        _ => return None,
    };
    Some(Refused { ticket, why: Refusal::Relay, head: Number::NONE, text: String::new() }.into())
}

impl Machine for Relays {
    fn connected(&mut self, now: Time, port: Port) {
        if let Port::Upstream(id) = port {
            self.with(id, |relay| relay.connected(now, Port::SERVER));
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        if let Port::Upstream(id) = port {
            return self.with(id, |relay| relay.disconnected(now, Port::SERVER));
        }
        self.outside.remove(&port);
        if let Some(id) = self.sessions.remove(&port) {
            if let Some(of) = self.running.get_mut(&id) {
                of.sessions.remove(&port);
            }
            self.with(id, |relay| relay.disconnected(now, port));
        }
        self.end_unused();
    }

    fn has_room(&mut self, port: Port) {
        if let Some(id) = self.sessions.get(&port).copied() {
            self.with(id, |relay| relay.has_room(port));
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        if let Port::Upstream(id) = port {
            return self.with(id, |relay| relay.handle(now, Port::SERVER, message));
        }
        match self.sessions.get(&port).copied() {
            Some(id) => self.with(id, |relay| relay.handle(now, port, message)),
            None => self.admit(now, port, message.expect()),
        }
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn stop(&mut self, _: &str) {
        self.outputs.clear();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.running.values().filter_map(|of| of.relay.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.with(id, |relay| {
                if relay.poll_timeout().is_some_and(|due| due <= now) {
                    relay.handle_timeout(now);
                }
            });
        }
        self.end_unused();
    }

    fn status(&self) -> Vec<Table> {
        let all = self.running.values().map(|of| of.relay.figures());
        let Figures { sites, members, chunks, chunk_bytes, fetched } = all.fold(Figures::default(), Figures::and);
        Vec::from([RELAY.one([
            ("sites", sites.into()),
            ("members", members.into()),
            ("chunks", chunks.into()),
            ("chunk_bytes", chunk_bytes.into()),
            ("fetched", fetched.into()),
        ])])
    }

    fn way(&mut self, now: Time, upstream: UpstreamId) -> Option<String> {
        self.running.get_mut(&upstream)?.relay.way(now, UpstreamId::ONLY)
    }

    fn has_way(&self, upstream: UpstreamId) -> bool {
        self.running.get(&upstream).is_some_and(|of| of.relay.has_way(UpstreamId::ONLY))
    }
}
