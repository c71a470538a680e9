//! Scrubs on a schedule, by the process that has a volume attached: throttled, and with repairs. The last run is
//! recorded in the cache, so a restart does not begin the interval again.

use super::{Difference, Repair};
use crate::attached::Attached;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The file of the last run, in the cache.
pub(crate) const SCRUB_NAME: &str = "scrub";

/// The most bytes to compare in a second.
const BYTES_PER_SECOND: u64 = 32 << 20;

/// The findings that are kept one by one.
const FINDINGS_MAX: usize = 64;

/// The blocks to repair at a time.
const REPAIRED_AT_A_TIME: usize = 1024;

/// A run that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// When it ended, by the clock here: seconds since 1970.
    pub ended_at_s: u64,
    /// How long it took.
    pub took_s: u64,
    /// The blocks that were compared with home's checksums.
    pub checked_blocks: u64,
    /// The blocks of which home knows no checksum.
    pub unknown_blocks: u64,
    /// The blocks that were compared with the cache's checksums.
    pub cached_blocks: u64,
    /// The blocks that were compared with holders' copies.
    pub copied_blocks: u64,
    /// The differences that were found.
    pub differences: u64,
    /// How many of them were repaired.
    pub repaired: u64,
    /// The outcomes of the first repairs, for people.
    pub findings: Vec<String>,
    /// Why it did not come to its end, if it did not.
    pub error: Option<String>,
}

impl ScrubReport {
    fn add(&mut self, repair: &Repair) {
        self.repaired += u64::from(repair.is_done());
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(repair.text());
        }
    }
}

/// The scrubs of an attached volume. When this is dropped, the one that is under way ends.
#[derive(Debug)]
pub struct Scrubbing {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    attached: Arc<Attached>,
    every: Duration,
    path: PathBuf,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last: Option<ScrubReport>,
    /// The bytes that the run under way has compared.
    running: Option<u64>,
    ends: bool,
}

impl Scrubbing {
    /// Scrubs this volume, whose cache is in this directory, at this interval. The first run is due when it has passed
    /// since the last one that the cache remembers, or since now.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(attached: Arc<Attached>, cache: &Path, every: Duration) -> std::io::Result<Self> {
        let path = cache.join(SCRUB_NAME);
        let last = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // A cache that remembers none has its first run after an interval.
        let last = last.or_else(|| Some(ScrubReport { ended_at_s: now_s(), ..ScrubReport::default() }));
        let state = Mutex::new(State { last, ..State::default() });
        let shared = Arc::new(Shared { attached, every, path, state, woken: Condvar::new() });
        let running = shared.clone();
        let thread = thread::Builder::new().name("volume-scrub".to_owned()).spawn(move || running.run_all())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the run that is under way, and begins none from now on.
    pub fn end(&self) {
        self.shared.state().ends = true;
        self.shared.woken.notify_all();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has ended.
            let _ = thread.join();
        }
    }

    /// The interval.
    pub fn every(&self) -> Duration {
        self.shared.every
    }

    /// The last run, if there was one.
    pub fn last(&self) -> Option<ScrubReport> {
        self.shared.state().last.clone().filter(|it| it.took_s > 0 || it.checked_blocks + it.unknown_blocks > 0)
    }

    /// The bytes that the run under way has compared, if one is.
    pub fn running(&self) -> Option<u64> {
        self.shared.state().running
    }

    /// The time until the next run.
    pub fn next(&self) -> Duration {
        self.shared.due_in(&self.shared.state())
    }
}

impl Drop for Scrubbing {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due_in(&self, state: &State) -> Duration {
        let since = state.last.as_ref().map_or(0, |it| now_s().saturating_sub(it.ended_at_s));
        self.every.saturating_sub(Duration::from_secs(since))
    }

    /// Waits for this long. Returns whether to continue.
    fn pause(&self, within: Duration) -> bool {
        let waited = self.woken.wait_timeout_while(self.state(), within, |state| !state.ends);
        !waited.unwrap_or_else(PoisonError::into_inner).0.ends
    }

    fn run_all(&self) {
        while {
            let due_in = self.due_in(&self.state());
            self.pause(due_in)
        } {
            let report = self.run();
            let mut state = self.state();
            state.running = None;
            // The next attachment repeats a run that was interrupted.
            if !state.ends {
                self.remember(&report);
                state.last = Some(report);
            }
        }
    }

    fn run(&self) -> ScrubReport {
        let (begun, mut report) = (Instant::now(), ScrubReport::default());
        // The log first: repairs of blocks at home are written back behind its writes.
        let copies = self.attached.compare_copies(true, &|| self.state().ends);
        report.copied_blocks = copies.blocks;
        copies.repairs.iter().for_each(|it| report.add(it));
        let compared = self.attached.scrub(&mut |bytes, differences| {
            self.state().running = Some(bytes);
            self.repair(differences, &mut report);
            let due = Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND);
            self.pause(due.saturating_sub(begun.elapsed()))
        });
        match compared {
            Ok(all) => {
                (report.checked_blocks, report.unknown_blocks) = (all.checked, all.unknown);
                (report.cached_blocks, report.differences) = (all.cached, all.differences + copies.differing);
            }
            Err(error) => report.error = Some(error.to_string()),
        }
        report.took_s = begun.elapsed().as_secs().max(1);
        report.ended_at_s = now_s();
        report
    }

    fn repair(&self, differences: &[Difference], report: &mut ScrubReport) {
        differences.iter().filter_map(Difference::left).for_each(|it| report.add(&it));
        let blocks: Vec<u32> = differences.iter().filter(|it| it.left().is_none()).map(|it| it.block).collect();
        for blocks in blocks.chunks(REPAIRED_AT_A_TIME) {
            match self.attached.repair(blocks, &|| self.state().ends) {
                Ok(repairs) => repairs.iter().for_each(|it| report.add(it)),
                Err(error) => report.error = Some(error.to_string()),
            }
        }
    }

    /// A cache that cannot be written has its next run after the next start.
    fn remember(&self, report: &ScrubReport) {
        let temporary = self.path.with_extension("tmp");
        let bytes = serde_json::to_vec(report).unwrap_or_default();
        let _ = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, &self.path));
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
