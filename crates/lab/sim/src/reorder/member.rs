//! A member: one client's worth of cache, over two masters.
//!
//! 1. It has a horizon for each master, which moves with that master's own stream and with nothing else (`OwnHorizon`):
//!    what another's stream reports about a page does not cover the changes before it.
//! 2. A fetch under way keeps the invalidations of its page, by whichever stream, and applies it when the page arrives.
//! 3. It helps with what is whole, in sequence, and known through the count that it is asked for.

use super::links::Request;
use super::master::{client_of, member_of};
use super::{MASTERS, MemberNo, master_of};
use crate::check::never_back::NeverBack;
use cache::{Cache, Frame};
use core::mem;
use messages::{
    Ack, CommitReply, CommitRequest, Fetch, Held, Help, Invalidation, NoHelp, Outcome, Page, PageReads, PeerPage,
    Released, Resume, Resumed, ToClient, ToServer,
};
use std::collections::BTreeMap;
use types::{Broken, Delta, Incarnation, ObjectPage, PageId, Refusal, Rule, Shard, SlotSet, TxnId, Version};

/// A message of a member.
#[derive(Debug)]
pub(crate) enum Said {
    ToMaster(usize, Request),
    ToPeer(MemberNo, ToClient),
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    kept: Vec<Invalidation>,
}

#[derive(Debug)]
pub(crate) struct Member {
    number: MemberNo,
    pub(crate) cache: Cache,
    pub(crate) horizons: [Version; MASTERS],
    /// Its session has been lost, and what it holds is not listed again yet.
    resuming: [bool; MASTERS],
    under_way: BTreeMap<PageId, UnderWay>,
    pending: BTreeMap<u64, CommitRequest>,
    last_fetch: u64,
    pub(crate) never_back: NeverBack,
    said: Vec<Said>,
    broken: Broken,
}

impl Member {
    pub(crate) fn new(
        number: MemberNo,
        cache_bytes_limit: usize,
        horizons: [Version; MASTERS],
        broken: Broken,
    ) -> Self {
        Self {
            number,
            cache: Cache::new(cache_bytes_limit, broken),
            horizons,
            resuming: [false; MASTERS],
            under_way: BTreeMap::new(),
            pending: BTreeMap::new(),
            last_fetch: 0,
            never_back: NeverBack::default(),
            said: Vec::new(),
            broken,
        }
    }

    /// The messages since it was asked last.
    pub(crate) fn take_said(&mut self) -> Vec<Said> {
        mem::take(&mut self.said)
    }

    /// Whether it waits for nothing.
    pub(crate) fn rests(&self) -> bool {
        self.under_way.is_empty() && self.pending.is_empty() && self.resuming == [false; MASTERS]
    }

    fn say(&mut self, master: usize, message: impl Into<ToServer>) {
        self.said.push(Said::ToMaster(master, Request::Message(message.into())));
    }

    /// A message on the stream of `master`.
    pub(crate) fn handle(&mut self, master: usize, message: ToClient) {
        match message {
            ToClient::Invalidations(invalidations) => {
                invalidations.items.iter().for_each(|invalidation| self.changed(master, invalidation));
                self.heard_through(master, invalidations.through.of(Shard::ONLY));
            }
            ToClient::CommitReply(reply) => self.commit_reply(master, reply),
            ToClient::Help(help) => self.help(master, &help),
            ToClient::Resumed(resumed) => self.resumed(master, resumed),
            other => unreachable!("no master says {other:?} on its stream"),
        }
    }

    /// A page has changed, as the stream of `master` tells.
    fn changed(&mut self, master: usize, invalidation: &Invalidation) {
        if let Some(under_way) = self.under_way.get_mut(&invalidation.page) {
            under_way.kept.push(invalidation.clone());
        }
        self.cache.apply(invalidation);
        let owner = master_of(invalidation.page);
        if owner != master {
            self.said.push(Said::ToMaster(owner, Request::Heard(invalidation.version)));
            if self.broken.is(Rule::OwnHorizon) {
                self.heard_through(owner, invalidation.version);
            }
        }
        self.make_room();
    }

    fn heard_through(&mut self, master: usize, through: Version) {
        if through > self.horizons[master] && !self.resuming[master] {
            self.horizons[master] = through;
            self.say(master, Ack { through: through.into() });
        }
    }

    /// Fetches a page, unless it is under way.
    pub(crate) fn fetch(&mut self, page: PageId) {
        if self.under_way.contains_key(&page) {
            return;
        }
        self.last_fetch += 1;
        let number = self.last_fetch;
        self.under_way.insert(page, UnderWay { number, kept: Vec::new() });
        self.cache.pin(page, true);
        let horizon = self.horizons[master_of(page)];
        let at_least = self.cache.get(page).map_or(horizon, Frame::newest).max(horizon).into();
        self.say(master_of(page), Fetch { pages: vec![page], at_least, number, follow: None });
    }

    /// A page arrives, from its master or from a peer.
    pub(crate) fn arrives(&mut self, message: ToClient) {
        let (ToClient::Page(page) | ToClient::PeerPage(PeerPage { page, .. })) = message else {
            unreachable!("a parcel is a page");
        };
        let Page { page, version, number, image, .. } = page;
        if self.under_way.get(&page).is_none_or(|under_way| under_way.number != number) {
            return;
        }
        let under_way = self.under_way.remove(&page).expect("just seen");
        let image = ObjectPage::parse(image).expect("masters and members send pages");
        self.cache.install(page, version, image, &under_way.kept);
        self.cache.pin(page, false);
        self.make_room();
    }

    fn make_room(&mut self) {
        while let Some(evicted) = self.cache.evict() {
            self.release(evicted.page);
        }
    }

    /// Drops a page, unless it is under way.
    pub(crate) fn evict(&mut self, page: PageId) {
        if !self.under_way.contains_key(&page) && self.cache.remove(page).is_some() {
            self.release(page);
        }
    }

    fn release(&mut self, page: PageId) {
        self.say(master_of(page), Released { pages: vec![page] });
    }

    fn help(&mut self, master: usize, help: &Help) {
        let page = help.pages[0];
        // A change that was left to another stream to tell may not have come yet.
        let is_recent = self.horizons[master] >= help.through.of(Shard::ONLY);
        let whole = self.cache.get(page).filter(|_| is_recent).and_then(|frame| frame.whole(self.broken));
        let Some((version, image)) = whole else {
            let no_help = NoHelp { requester: help.requester, number: help.number, pages: vec![page] };
            return self.say(master, no_help);
        };
        let page =
            Page { page, version, number: help.number, fresh: false, behind: Vec::new(), image: image.image().clone() };
        let message = ToClient::PeerPage(PeerPage { requester: help.requester, through: help.through.clone(), page });
        self.said.push(Said::ToPeer(member_of(help.requester), message));
    }

    /// The proof for slots that were read of a page that is in the cache.
    pub(crate) fn evidence(&self, page: PageId, slots: SlotSet) -> PageReads {
        let frame = self.cache.get(page).expect("it was read of");
        let evidence = frame.version().max(self.horizons[master_of(page)]);
        let exceptions = frame.exceptions(evidence).filter(|(slot, _)| slots.contains(*slot)).collect();
        PageReads { page, slots, evidence, exceptions }
    }

    /// Asks `coordinator` to commit.
    pub(crate) fn commit(&mut self, coordinator: usize, number: u64, reads: Vec<PageReads>, writes: Vec<Delta>) {
        let txn = TxnId { client: client_of(self.number), number };
        let request = CommitRequest { txn, incarnation: Incarnation(1), answered: 1, reads, writes };
        self.pending.insert(number, request.clone());
        self.say(coordinator, request);
    }

    fn commit_reply(&mut self, master: usize, reply: CommitReply) {
        let Some(request) = self.pending.remove(&reply.txn.number) else { return };
        match reply.outcome {
            Outcome::Committed { pages } => {
                for (delta, advance) in request.writes.iter().zip(pages) {
                    self.changed(master, &Invalidation::of(request.txn, delta, advance));
                }
            }
            Outcome::Refused(Refusal::Stale(pages)) => {
                for (page, slots) in pages {
                    self.puncture(&request, page, &slots);
                }
            }
            other => unreachable!("no coordinator here answers {other:?}"),
        }
    }

    /// Slots that were read and were not the newest become holes, unless better has been heard in the meantime.
    fn puncture(&mut self, request: &CommitRequest, page: PageId, slots: &SlotSet) {
        let Some(frame) = self.cache.get(page) else { return };
        let Some(reads) = request.reads.iter().find(|reads| reads.page == page) else { return };
        let stale = slots.iter().filter(|&slot| frame.evidence(slot) <= reads.evidence_of(slot)).collect();
        self.cache.puncture(page, &stale);
    }

    /// Its sessions are lost, and begin again: it says what it holds.
    pub(crate) fn lose(&mut self) {
        for page in mem::take(&mut self.under_way).into_keys() {
            self.cache.pin(page, false);
        }
        self.pending.clear();
        self.resuming = [true; MASTERS];
        for master in 0..MASTERS {
            let held = self.cache.frames().filter(|(page, _)| master_of(*page) == master);
            let mut pages: Vec<_> = held.map(|(page, frame)| Held { page, version: frame.version() }).collect();
            pages.sort_unstable_by_key(|held| held.page);
            let horizon = self.horizons[master].into();
            self.say(master, Resume { horizon, pages, grants: Vec::new(), last: true, missed: 0 });
        }
    }

    fn resumed(&mut self, master: usize, resumed: Resumed) {
        for page in resumed.dropped {
            self.cache.remove(page);
        }
        self.resuming[master] = false;
        self.heard_through(master, resumed.through.of(Shard::ONLY));
    }
}
