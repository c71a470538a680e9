//! The steps that can come next.

use super::links::PageUnderWay;
use super::master::client_of;
use super::member::Said;
use super::run::World;
use super::{MASTERS, MemberNo, check};
use crate::ledger;
use crate::trace::{describe_to_client, digest_to_client};
use crate::value::{self, Stamp};
use crate::violation::Check;
use cache::Slot;
use core::fmt::Display;
use core::time::Duration;
use messages::ToClient;
use std::collections::BTreeMap;
use types::{Delta, ObjectId, PageId, SlotChange, SlotSet, TxnId};

/// A step takes as long as this.
const STEP: Duration = Duration::from_millis(1);

/// Pages that one transaction touches at most, and slots of each.
const TXN_PAGES_MAX: u64 = 3;
const TXN_SLOTS_MAX: u64 = 3;

#[derive(Clone, Copy)]
enum Act {
    Deliver,
    Request,
    Page,
    Begin,
    Evict,
    Repeat,
    Lose,
}

impl World {
    /// One thing happens.
    pub(crate) fn step(&mut self) -> Check {
        self.pass_time();
        match self.draw_act() {
            Act::Deliver => self.deliver(),
            Act::Request => self.request(),
            Act::Page => self.page(),
            Act::Begin => {
                let member = self.rng.index(self.members.len());
                self.begin(member)
            }
            Act::Evict => {
                let member = self.rng.index(self.members.len());
                let page = self.draw_page();
                self.note(&[5, member as u64, page.to_bits()], || format!("c{} evicts {page}", member + 1));
                self.members[member].evict(page);
                self.after(member)
            }
            Act::Repeat => {
                self.repeat();
                Ok(())
            }
            Act::Lose => {
                let member = self.rng.index(self.members.len());
                self.note(&[7, member as u64], || format!("c{} loses its sessions", member + 1));
                self.lose(member);
                self.after(member)
            }
        }
    }

    /// The messages that are due leave.
    pub(crate) fn pass_time(&mut self) {
        self.now = self.now + STEP;
        for master in 0..MASTERS {
            while let Some(member) = self.masters[master].pop_due(self.now) {
                self.flush(master, member);
            }
        }
    }

    fn draw_act(&mut self) -> Act {
        let w = self.scenario.weights;
        let acts = [
            (w.deliver, Act::Deliver),
            (w.request, Act::Request),
            (w.page, Act::Page),
            (w.begin, Act::Begin),
            (w.evict, Act::Evict),
            (w.repeat, Act::Repeat),
            (w.lose, Act::Lose),
        ];
        let mut drawn = self.rng.below(acts.iter().map(|(weight, _)| weight).sum());
        for (weight, act) in acts {
            match drawn.checked_sub(weight) {
                Some(rest) => drawn = rest,
                None => return act,
            }
        }
        unreachable!("a draw is below the sum")
    }

    /// A stream delivers its next message; fast streams come up more often.
    pub(crate) fn deliver(&mut self) -> Check {
        let busy: Vec<_> = self.links.busy_streams().collect();
        let Some(sum) = busy.iter().map(|&link| self.scenario.speeds[link]).reduce(|a, b| a + b) else { return Ok(()) };
        let mut drawn = self.rng.below(sum);
        let mut link = busy[0];
        for candidate in busy {
            link = candidate;
            match drawn.checked_sub(self.scenario.speeds[candidate]) {
                Some(rest) => drawn = rest,
                None => break,
            }
        }
        let (master, member) = self.links.ends(link);
        let message = self.links.stream(master, member).next().expect("it is busy");
        let [a, b, c] = digest_to_client(&message);
        self.note(&[1, link as u64, a, b, c], || {
            format!("m{master} -> c{}  {}", member + 1, describe_to_client(&message))
        });
        self.members[member].handle(master, message);
        self.after(member)
    }

    /// A member's request reaches a master.
    pub(crate) fn request(&mut self) -> Check {
        let busy: Vec<_> = self.links.busy_requests().collect();
        if busy.is_empty() {
            return Ok(());
        }
        let link = self.rng.pick(&busy);
        let (master, member) = self.links.ends(link);
        let request = self.links.next_request(link).expect("it is busy");
        self.note(&[2, link as u64], || format!("c{} -> m{master}  {request:?}", member + 1));
        self.serve(master, member, request)
    }

    /// A page arrives.
    pub(crate) fn page(&mut self) -> Check {
        if self.links.pages.is_empty() {
            return Ok(());
        }
        let drawn = self.rng.index(self.links.pages.len());
        let PageUnderWay { to, message } = self.links.pages.swap_remove(drawn);
        let [a, b, c] = digest_to_client(&message);
        self.note(&[3, to as u64, a, b, c], || format!("   -> c{}  {}", to + 1, describe_to_client(&message)));
        self.members[to].arrives(message);
        self.after(to)
    }

    /// A stream breaks, resumes, and repeats what it does not know to have been heard.
    fn repeat(&mut self) {
        let (master, member) = (self.rng.index(MASTERS), self.rng.index(self.members.len()));
        let stream = self.links.stream(master, member);
        let count = self.rng.index(stream.repeatable() + 1);
        stream.repeat(count);
        self.note(&[6, count as u64], || format!("m{master} repeats {count} messages to c{}", member + 1));
    }

    /// A transaction of a member reads what is at hand, fetches what is not, and asks for its commit.
    fn begin(&mut self, member: MemberNo) -> Check {
        let mut touched: BTreeMap<PageId, SlotSet> = BTreeMap::new();
        let (only, both) = (self.rng.index(MASTERS), self.rng.chance(self.scenario.both_permille));
        for _ in 0..self.rng.between(1, TXN_PAGES_MAX) {
            let page = self.draw_page();
            let page = if both { page } else { PageId::new(only as u32, page.number) };
            for _ in 0..self.rng.between(1, TXN_SLOTS_MAX) {
                let slot = self.rng.below(u64::from(self.scenario.slots)) as u16;
                touched.entry(page).or_default().insert(slot);
            }
        }
        self.attempts += 1;
        let (mut seen, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for (page, slots) in touched {
            let slots = self.read(member, page, &slots, &mut seen)?;
            if slots.is_empty() {
                continue;
            }
            writes.extend(self.write(page, &slots));
            reads.push(self.members[member].evidence(page, slots));
        }
        let (coordinator, number) = (self.rng.index(MASTERS), self.attempts);
        self.note(&[4, member as u64, seen.len() as u64], || {
            format!("c{} begins t{}: reads {reads:?} {seen:?}, writes {writes:?}", member + 1, number)
        });
        if !reads.is_empty() {
            let number = u64::from(number);
            self.reads.insert(TxnId { client: client_of(member), number }, seen);
            self.members[member].commit(coordinator, number, reads, writes);
        }
        self.after(member)
    }

    /// Reads those of some slots that can be read; the page is fetched if it is not here, or has a hole among them.
    fn read(
        &mut self,
        member: MemberNo,
        page: PageId,
        slots: &SlotSet,
        seen: &mut Vec<(ObjectId, Option<Stamp>)>,
    ) -> Result<SlotSet, crate::Violation> {
        let mut read = SlotSet::new();
        for slot in slots.iter() {
            let object = ObjectId::new(page, slot);
            let shown = match self.members[member].cache.get(page).map(|frame| frame.slot(slot)) {
                Some(Slot::Value(bytes)) => Some(ledger::stamp_of(object, bytes)?),
                Some(Slot::Free) => None,
                Some(Slot::Hole) | None => continue,
            };
            seen.push((object, shown));
            read.insert(slot);
        }
        if read.len() < slots.len() {
            self.members[member].fetch(page);
        }
        Ok(read)
    }

    /// New values for some of the slots.
    fn write(&mut self, page: PageId, slots: &SlotSet) -> Option<Delta> {
        let mut changes = Vec::new();
        for slot in slots.iter() {
            if self.rng.chance(self.scenario.write_permille) {
                let stamp = Stamp { attempt: self.attempts, write: changes.len() as u32 };
                let padding = self.rng.index(40);
                let value = value::encode(Some(ObjectId::new(page, slot)), stamp, padding);
                let is_kept = !self.rng.chance(self.scenario.delete_permille);
                changes.push(SlotChange { slot, value: is_kept.then_some(value) });
            }
        }
        (!changes.is_empty()).then_some(Delta { page, changes })
    }

    fn draw_page(&mut self) -> PageId {
        let master = self.rng.index(MASTERS);
        PageId::new(master as u32, self.rng.below(u64::from(self.scenario.pages)) as u32)
    }

    /// Something has happened to a member: its messages go out, and its cache is looked at.
    fn after(&mut self, member: MemberNo) -> Check {
        for said in self.members[member].take_said() {
            match said {
                Said::ToMaster(master, request) => self.links.request(master, member, request),
                Said::ToPeer(peer, page) => self.send_page(peer, page),
            }
        }
        check::member(&mut self.members[member], &self.masters)
    }

    pub(crate) fn send_page(&mut self, to: MemberNo, message: ToClient) {
        debug_assert!(matches!(&message, ToClient::Page(_) | ToClient::PeerPage(_)));
        self.links.pages.push(PageUnderWay { to, message });
    }

    pub(crate) fn note<T: Display>(&mut self, numbers: &[u64], text: impl FnOnce() -> T) {
        self.trace.event(self.now, numbers, text);
    }
}
