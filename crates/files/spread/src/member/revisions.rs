//! Revisions at a member: offered, fetched, served.

use super::fetch::{Fetch, Stage};
use super::work::{Applied, Edited, State, Work};
use super::{Member, READY, RETRY_AFTER};
use crate::number::{Number, Revision};
use crate::rule::Way;
use alloc::string::String;
use machine::Output;

impl Member {
    /// Learns of a revision.
    pub(super) fn hear(&mut self, revision: Revision, edited: Option<Edited>, reports: bool) {
        if revision.number <= self.newest_number() && !self.is_broken(Way::LateOffer) {
            return;
        }
        self.freeze();
        (self.newest, self.offered, self.report.is_awaited) = (Some(revision), edited, reports);
        if self.is_broken(Way::StartOver) {
            self.end_fetch();
        }
    }

    /// Goes on with the fetch, or begins that of the newest revision, if it is due.
    pub(super) fn settle(&mut self) {
        let Some(newest) = self.newest else { return };
        if self.is_lazy() {
            self.freshness.is_wanted |= self.kept.current().is_none();
            let is_asked = self.freshness.acquired.is_some_and(|it| it.number == newest.number);
            // Else this may be an older one: the newest is asked for.
            if !self.freshness.is_wanted || !(self.taker.has_share() || is_asked) {
                return;
            }
        }
        let is_newer = newest.number > self.current_number() || self.is_broken(Way::LateOffer);
        if self.fetch.is_none() && !self.needs_room && self.kept.current() != Some(newest) && is_newer {
            if self.kept.has(newest.root) {
                // A rollback, as a rule.
                (self.offered, self.fetch) = (None, Some(Fetch::of_kept(newest, self.parts())));
                return self.switch();
            }
            let base = self.kept.current().map(|current| current.root);
            let mut fetch = Fetch::begin(newest, self.parts());
            if let Some(edited) = self.offered.take().filter(|edited| Some(edited.base) == base) {
                fetch.stage = Stage::Descending;
                self.work(Work::Apply(edited));
            }
            self.fetch = Some(fetch);
            self.descend();
        }
    }

    /// Looks for missing chunks, if the fetch waits for a look.
    pub(super) fn descend(&mut self) {
        let base = self.kept.current().map(|current| current.root);
        if let Some(steps) = self.fetch.as_mut().and_then(|fetch| fetch.descend(base)) {
            self.work(Work::Descend(steps));
        }
    }

    /// The edits of the offer were applied, as far as they go.
    pub(super) fn applied(&mut self, Applied { found, content }: Applied) {
        for (hash, bytes) in content {
            self.content.came(hash, bytes);
        }
        self.descended(Ok(found));
    }

    pub(super) fn descended(&mut self, found: Result<tree::Descent, String>) {
        if self.lost_looks > 0 {
            // The disk answers in order.
            self.lost_looks -= 1;
            return;
        }
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.stage == Stage::Descending) else { return };
        match found {
            Ok(found) => {
                self.condemned.spare(&found.relies);
                self.content.rely_on(&found.relies);
                for hash in found.relies.iter().chain(&found.lacks) {
                    self.ahead.remove(hash);
                }
                let lacks = fetch.descended(found, |hash| self.storing.contains_key(hash));
                let is_whole = fetch.is_whole();
                for hash in lacks {
                    if !self.wanted.contains(&hash) && !self.storing.contains_key(&hash) {
                        self.queue.push_back(hash);
                    }
                }
                self.ask_for_chunks();
                if is_whole || self.is_broken(Way::SwitchPart) {
                    self.switch();
                } else {
                    self.descend();
                }
            }
            Err(why) => self.fail(why),
        }
    }

    /// Ends the fetch under way. If the disk looks at its tree, the answer says nothing of the next one's
    /// (**SwitchWhole**).
    pub(super) fn end_fetch(&mut self) {
        self.lost_looks += usize::from(self.fetch.take().is_some_and(|fetch| fetch.is_looking()));
    }

    /// Makes the revision that is here as a whole the one that is served.
    pub(super) fn switch(&mut self) {
        let Some(fetch) = &mut self.fetch else { return };
        let Some(visitor_key) = self.visitor_key else { return };
        fetch.stage = Stage::Switching;
        let revision = fetch.revision;
        let revisions = self.kept.with(self.now, revision);
        let (parts, when_stale) = (self.parts(), self.when_stale);
        self.work(Work::Switch(State { parts, revisions, visitor_key, when_stale }));
        if self.is_broken(Way::ForgetSwitch) {
            self.serve(revision);
        }
    }

    pub(super) fn switched(&mut self, number: Number, switched: Result<(), String>) {
        let is_it = |fetch: &mut Fetch| fetch.stage == Stage::Switching && fetch.revision.number == number;
        let Some(fetch) = self.fetch.take_if(is_it) else {
            if let Err(why) = switched {
                // The record still names revisions whose chunks were about to be removed.
                self.condemned.spoil();
                self.trouble = Some(why);
            }
            return;
        };
        match switched {
            Ok(()) => {
                self.serve(fetch.revision);
                self.trouble = None;
                self.collect_at.get_or_insert(self.now + self.config.collect_after);
                self.freshness.is_wanted = false;
                self.outputs.push_back(Output::Wake(READY));
            }
            Err(why) => {
                self.give_up_content();
                if self.give_up_ahead() {
                    self.make_room();
                    return self.retry_later(why);
                }
                self.fetch = Some(fetch);
                self.fail(why);
            }
        }
    }

    pub(super) fn serve(&mut self, revision: Revision) {
        self.kept.serve(self.now, revision, self.fresh_until());
        if self.newest == Some(revision) && self.taker.has_share() {
            self.freshness.frozen = None;
        }
    }

    /// Asks again in a while for a chunk that did not come.
    pub(super) fn retry_later(&mut self, why: String) {
        self.trouble = Some(why);
        self.retry_at = Some(self.now + RETRY_AFTER);
    }

    /// A step of the fetch could not be done: it begins again in a while.
    pub(super) fn fail(&mut self, why: String) {
        self.retry_later(why);
        if let Some(fetch) = &mut self.fetch {
            fetch.fail();
        }
        self.asks_again();
    }
}
