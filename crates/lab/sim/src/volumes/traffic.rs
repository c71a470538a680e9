//! Traffic: the sessions between hosts and holders, and the messages in them.

use super::host::{Host, Link, Role};
use super::peer::PeerEvent;
use super::run::{Orphan, World};
use crate::violation::ensure;
use machines::PartitionId;
use std::collections::VecDeque;
use std::mem;
use types::{GoodbyeReason, SessionId};

impl World {
    pub(super) fn sync(&mut self, peer: usize) {
        if self.peers[peer].is_soft() {
            self.peers[peer].sync(&mut self.rng);
            self.note(&[1, peer as u64], || format!("p{peer} syncs"));
            self.drain_peer(peer);
        }
    }

    pub(super) fn pick_link(&mut self, host: usize) -> Option<PartitionId> {
        let links: Vec<_> = self.hosts[host].links.keys().copied().collect();
        (!links.is_empty()).then(|| links[self.rng.index(links.len())])
    }

    pub(super) fn send_to_peer(&mut self, host: usize) {
        let Some(partition) = self.pick_link(host) else { return };
        let link = self.hosts[host].links.get_mut(&partition).expect("it was picked");
        let (peer, session) = (link.peer, link.session);
        if let Some(message) = link.to_peer.pop_front() {
            self.note(&[11, host as u64, peer as u64], || format!("h{host} -> p{peer}: {message:?}"));
            self.peers[peer].hear(session, message);
            self.drain_peer(peer);
        }
    }

    pub(super) fn send_to_host(&mut self, host: usize) {
        let Some(partition) = self.pick_link(host) else { return };
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let link = it.links.get_mut(&partition).expect("it was picked");
        let peer = link.peer;
        let Some(message) = link.to_host.pop_front() else { return };
        match &mut it.role {
            Role::Owner(owner) => owner.heard(clock, partition, &message),
            Role::TakeOver(takeover) => takeover.heard(clock, partition, message.clone()),
            Role::Idle => {}
        }
        self.note(&[12, host as u64, peer as u64], || format!("p{peer} -> h{host}: {message:?}"));
        self.drain(host);
    }

    /// A message arrives whose sender is gone.
    pub(super) fn orphan(&mut self) {
        if self.orphans.is_empty() {
            return;
        }
        let at = self.rng.index(self.orphans.len());
        let Orphan { peer, session, messages } = &mut self.orphans[at];
        let (peer, session) = (*peer, *session);
        if let Some(message) = messages.pop_front() {
            self.note(&[13, peer as u64], || format!("late -> p{peer}: {message:?}"));
            self.peers[peer].hear(session, message);
        } else {
            self.orphans.swap_remove(at);
            self.peers[peer].holder.down(session);
        }
        self.drain_peer(peer);
    }

    pub(super) fn connect(&mut self, host: usize) {
        let it = &self.hosts[host];
        let missing: Vec<_> = it.wanted.iter().filter(|it| !self.hosts[host].links.contains_key(it)).copied().collect();
        if missing.is_empty() {
            return;
        }
        let partition = missing[self.rng.index(missing.len())];
        // One that came back empty is found where the one before it was.
        let names = |number: u64| (number - 1) as usize % self.peers.len();
        let peer = names(partition.0);
        let clock = it.clock(self.now);
        if !self.peers[peer].is_up {
            return;
        }
        self.sessions += 1;
        let session = SessionId(self.sessions);
        let link = Link { peer, session, to_peer: VecDeque::new(), to_host: VecDeque::new() };
        let it = &mut self.hosts[host];
        it.links.insert(partition, link);
        match &mut it.role {
            Role::Owner(owner) => owner.up(clock, partition),
            Role::TakeOver(takeover) => takeover.connected(clock, partition),
            Role::Idle => {}
        }
        self.note(&[14, host as u64, peer as u64], || format!("h{host} connects to p{peer} for {partition:?}"));
        self.drain(host);
    }

    /// A link is gone. Messages that were sent on it may still arrive.
    pub(super) fn close_link(&mut self, host: usize, partition: PartitionId) {
        let Some(link) = self.hosts[host].links.remove(&partition) else { return };
        let Link { peer, session, to_peer: messages, .. } = link;
        self.orphans.push(Orphan { peer, session, messages });
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        match &mut it.role {
            Role::Owner(owner) => owner.down(clock, partition),
            Role::TakeOver(takeover) => takeover.disconnected(clock, partition),
            Role::Idle => {}
        }
    }

    pub(super) fn drop_link(&mut self, host: usize) {
        if let Some(partition) = self.pick_link(host) {
            self.note(&[15, host as u64, partition.0], || format!("h{host} loses its session with {partition:?}"));
            self.close_link(host, partition);
            self.drain(host);
        }
    }

    /// Does what a holder wants.
    pub(super) fn drain_peer(&mut self, peer: usize) {
        for event in self.peers[peer].drain(&mut self.rng) {
            let find = |session: SessionId, hosts: &[Host]| {
                let has = |host: &Host| host.links.iter().find(|(_, link)| link.session == session).map(|(&it, _)| it);
                hosts.iter().enumerate().find_map(|(at, host)| Some((at, has(host)?)))
            };
            match event {
                PeerEvent::Say(session, message) => {
                    if let Some((host, partition)) = find(session, &self.hosts) {
                        let link = self.hosts[host].links.get_mut(&partition).expect("it was found");
                        link.to_host.push_back(message);
                    }
                }
                PeerEvent::End(session, reason) => {
                    let is_fair = !matches!(reason, GoodbyeReason::TooMuch | GoodbyeReason::Malformed);
                    let found = ensure(is_fair, "room", || format!("p{peer} ends a session: {}", reason.name()));
                    self.found = mem::replace(&mut self.found, Ok(())).and(found);
                    // The last words arrive first.
                    if let Some((host, partition)) = find(session, &self.hosts) {
                        let it = &mut self.hosts[host];
                        let clock = it.clock(self.now);
                        let said = mem::take(&mut it.links.get_mut(&partition).expect("it was found").to_host);
                        for message in said {
                            match &mut it.role {
                                Role::Owner(owner) => owner.heard(clock, partition, &message),
                                Role::TakeOver(takeover) => takeover.heard(clock, partition, message),
                                Role::Idle => {}
                            }
                        }
                        self.close_link(host, partition);
                        self.drain(host);
                    }
                }
            }
        }
    }
}
