//! A transaction over both masters: judged, numbered and told in one step, as if by a sequencer.

use super::links::Request;
use super::master::{member_of, parts};
use super::run::World;
use super::{MASTERS, MemberNo, check, master_of};
use crate::violation::Check;
use messages::{CommitReply, CommitRequest, Invalidation, Invalidations, Outcome, ToClient, ToServer};
use types::Refusal;

impl World {
    /// `coordinator` decides on the request of a member.
    pub(crate) fn decide(&mut self, coordinator: usize, from: MemberNo, request: &CommitRequest) -> Check {
        let reads = self.reads.remove(&request.txn).expect("what was read is noted when the request is made");
        let stale = request.reads.iter().map(|reads| (reads.page, self.masters[master_of(reads.page)].stale(reads)));
        let stale: Vec<_> = stale.filter(|(_, slots)| !slots.is_empty()).collect();
        if !stale.is_empty() {
            self.reply(coordinator, from, request, Outcome::Refused(Refusal::Stale(stale)));
            return Ok(());
        }
        check::committed(&self.masters, request.txn, &reads)?;
        self.commits += 1;
        // Earlier invalidations go before.
        (0..self.members.len()).for_each(|member| self.flush(coordinator, member));
        let mut advances = Vec::new();
        for (master, part) in self.masters.iter_mut().zip(parts(&request.writes)) {
            if !part.is_empty() {
                advances.extend(master.apply(request.txn, part)?);
            }
        }
        let pairs = request.writes.iter().zip(&advances);
        let invalidations: Vec<_> =
            pairs.map(|(delta, advance)| Invalidation::of(request.txn, delta, *advance)).collect();
        for member in 0..self.members.len() {
            self.tell(coordinator, member, member == from, &invalidations);
        }
        self.reply(coordinator, from, request, Outcome::Committed { pages: advances });
        Ok(())
    }

    fn reply(&mut self, coordinator: usize, to: MemberNo, request: &CommitRequest, outcome: Outcome) {
        let message = ToClient::CommitReply(CommitReply { txn: request.txn, outcome });
        self.links.stream(coordinator, to).push(message);
    }

    /// Tells a member of the changes to what it holds: by the coordinator's stream with the new values, which for the
    /// committer is the reply; or by each page's own master's, without; or by both.
    fn tell(&mut self, coordinator: usize, member: MemberNo, is_committer: bool, invalidations: &[Invalidation]) {
        let held =
            |invalidation: &&Invalidation| self.masters[master_of(invalidation.page)].holds(invalidation.page, member);
        let held: Vec<_> = invalidations.iter().filter(held).cloned().collect();
        if held.is_empty() {
            return;
        }
        let by_coordinator = is_committer || self.rng.chance(self.scenario.update_permille);
        for invalidation in &held {
            let owner = master_of(invalidation.page);
            if by_coordinator && owner == coordinator {
                continue;
            }
            if by_coordinator && self.rng.chance(self.scenario.leave_permille) {
                self.masters[owner].leave(member, invalidation.version);
            } else {
                self.masters[owner].tell(self.now, member, invalidation);
            }
        }
        if by_coordinator && !is_committer {
            let through = self.masters[coordinator].through(member).into();
            let update = ToClient::Invalidations(Invalidations { through, items: held });
            self.links.stream(coordinator, member).push(update);
        }
    }

    /// Sends what a master has for a member.
    pub(crate) fn flush(&mut self, master: usize, member: MemberNo) {
        for invalidations in self.masters[master].flush(member) {
            self.links.stream(master, member).push(ToClient::Invalidations(invalidations));
        }
    }

    /// A master learns of a member.
    pub(crate) fn serve(&mut self, number: usize, from: MemberNo, request: Request) -> Check {
        let master = &mut self.masters[number];
        match request {
            Request::Heard(version) => master.heard(from, version),
            Request::Message(ToServer::Ack(ack)) => master.ack(from, &ack.through),
            Request::Message(ToServer::Released(released)) => master.release(released.pages[0], from),
            Request::Message(ToServer::Commit(request)) => return self.decide(number, from, &request),
            Request::Message(ToServer::NoHelp(m)) => {
                let requester = member_of(m.requester);
                let page = master.no_help(requester, m.pages[0], m.number);
                self.send_page(requester, page);
            }
            Request::Message(ToServer::Resume(resume)) => {
                for message in master.resume(self.now, from, &resume) {
                    self.links.stream(number, from).push(message);
                }
            }
            Request::Message(ToServer::Fetch(fetch)) => {
                let page = fetch.pages[0];
                let others = master.list(page, from);
                if others.is_empty() || !self.rng.chance(self.scenario.help_permille) {
                    let page = master.page(page, fetch.number);
                    self.send_page(from, page);
                } else {
                    let helper = self.rng.pick(&others);
                    self.flush(number, helper);
                    let help = self.masters[number].ask(helper, from, &fetch);
                    self.links.stream(number, helper).push(help);
                }
            }
            Request::Message(other) => unreachable!("no member says {other:?}"),
        }
        Ok(())
    }

    /// Both masters notice that a member's sessions are gone.
    pub(crate) fn lose(&mut self, member: MemberNo) {
        for txn in self.links.lose(member) {
            self.reads.remove(&txn);
        }
        for master in 0..MASTERS {
            for (requester, page) in self.masters[master].lose(member) {
                self.send_page(requester, page);
            }
        }
        self.members[member].lose();
    }
}
