//! One run from its seed to its verdict.
//!
//! ```text
//!   storm        applications run, faults strike
//!   calm         no more faults: every thread must get a commit through            (liveness)
//!   audit        the store crashes once more; a new client reads everything        (durability, strictness)
//!   close        everything is home, byte for byte                                 (durability)
//! ```

use crate::check;
use crate::disk::StoreDisk;
use crate::network::Path;
use crate::scenario::{Day, STORE};
use crate::store_run::Run;
use crate::violation::{Check, Violation, ensure};
use core::time::Duration;
use machine::RoleId;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use types::{Broken, ObjectId, ObjectPage, PageId};

/// The longest that a storm lasts, and that each of the other phases may take: virtual time, and generous, because a
/// client that is far away and meets others all the time may be refused many times.
const STORM: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// The result of one seed.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Transactions acknowledged as committed.
    pub commits: u64,
    /// Transactions whose outcome is unknown to those who asked for it.
    pub unknown: u64,
    /// The trace's hash.
    pub hash: u64,
    /// The violation that was found, if any.
    pub violation: Option<Violation>,
    /// The trace in words, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs one seed of such a day. A role that panics has violated something too.
pub(crate) fn run_seed(seed: u64, day: Day, broken: Broken, readable: bool) -> Report {
    let mut run = Run::drawn(seed, day, broken, readable);
    let scenario = run.scene.scenario.to_string();
    let verdict = guarded(|| run.live());
    let mut report = report(seed, run, verdict);
    if readable {
        report.trace.insert(0, scenario);
    }
    report
}

pub(crate) fn report(seed: u64, run: Run, verdict: Check) -> Report {
    Report {
        seed,
        commits: run.scene.history.acknowledged(),
        unknown: run.scene.history.unknown(),
        hash: run.trace.hash(),
        violation: verdict.err(),
        trace: run.trace.into_lines(),
    }
}

impl Run {
    /// Lives through all phases.
    pub(crate) fn live(&mut self) -> Check {
        self.begin()?;
        self.schedule_faults();
        self.weather()?;
        self.settle_down()?;
        check::unknown::bounded(self.scene.history.unknown(), self.scene.scenario.is_untroubled())?;
        self.audit()?;
        self.close()
    }

    pub(crate) fn begin(&mut self) -> Check {
        (0..self.processes.len()).try_for_each(|process| self.start(process))
    }

    pub(crate) fn weather(&mut self) -> Check {
        let end = self.now + STORM;
        let attempts = self.scene.scenario.attempts;
        let over = |run: &Self| run.scene.attempts >= attempts || run.now >= end;
        // A storm that nothing gets through ends by itself.
        self.run_until(2 * STORM, "the storm goes on", over)
    }

    /// Every thread gets a commit through, and then rests: one that has none yet is hindered by fewer and fewer others,
    /// and a transaction that nobody ever wakes is found.
    pub(crate) fn settle_down(&mut self) -> Check {
        self.calm_down();
        for thread in self.scene.applications.iter_mut().flat_map(|application| &mut application.threads) {
            thread.last_one = true;
        }
        self.run_until(PATIENCE, "a thread gets no commit through", |run| {
            run.applications().all(|number| run.rests(number))
        })
    }

    /// The processes with an application that can be expected to get anywhere.
    fn applications(&self) -> impl Iterator<Item = usize> {
        let first = if self.scene.scenario.embedded { STORE } else { STORE + 1 };
        first..=self.scene.scenario.clients - usize::from(self.scene.scenario.dead_weight)
    }

    /// The store crashes, the clients too, and one that comes new reads everything that was ever written.
    pub(crate) fn audit(&mut self) -> Check {
        self.scene.audit = Some(self.objects());
        self.crash_store()?;
        (1..self.processes.len()).for_each(|process| self.kill(process));
        self.scene.scenario.groups.iter_mut().for_each(Vec::clear);
        self.trace.event(self.now, &[40], || "the audit begins");
        // The auditor reads page after page, and does not live far away.
        *self.network.path(1) = Path::of(self.network.path(STORE).delay.brief());
        self.start(1)?;
        self.run_until(PATIENCE, "the audit does not end", |run| run.rests(1))
    }

    /// Everything that was written, and what could have been.
    fn objects(&self) -> Vec<ObjectId> {
        let habits = &self.scene.scenario.habits;
        let hot = (0..habits.pages).flat_map(|page| (0..habits.slots).map(move |slot| (page, slot)));
        let mut objects: Vec<_> = hot.map(|(page, slot)| ObjectId::new(PageId::new(0, page), slot)).collect();
        for (page, history) in self.scene.history.ledger().pages() {
            objects.extend(history.slots().map(|(slot, _)| ObjectId::new(page, slot)));
        }
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// The store closes, and its home is the committed history's last state.
    pub(crate) fn close(&mut self) -> Check {
        self.scene.finale = true;
        self.close_store()?;
        self.run_until(PATIENCE, "the store does not close", |run| run.processes[STORE].closed)?;
        let disk = self.processes[STORE].drives[&RoleId::ONLY].get::<StoreDisk>().expect("it is the store's");
        let ledger = self.scene.history.ledger();
        for (page, history) in ledger.pages() {
            let last = history.version_at(ledger.horizon().of(page));
            let Some((version, image)) = disk.home().get(&page) else {
                return ensure(false, "durability", || format!("{page:?} at {last:?} is not home"));
            };
            ensure(*version == last, "durability", || format!("{page:?} is home at {version:?}, and not at {last:?}"))?;
            let image = ObjectPage::parse(image.clone()).map_err(|error| Violation {
                checker: "durability",
                text: format!("{page:?} is home as no page: {error}"),
            })?;
            check::answers::image_is(history, page, &image, last)?;
        }
        Ok(())
    }
}

thread_local! {
    /// Where the last panic of this thread was, and what it said.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static QUIET: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs something that may panic, and makes a violation of that.
pub(crate) fn guarded(run: impl FnOnce() -> Check) -> Check {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.with_borrow(|quiet| *quiet) {
                PANIC.set(Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let verdict = panic::catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    verdict.unwrap_or_else(|_| {
        let text = PANIC.take().unwrap_or_default();
        Err(Violation { checker: "panic", text })
    })
}
