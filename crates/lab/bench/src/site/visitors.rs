//! The load of a web site: readers that ask caches for pages, one after the other on a connection each, and writers
//! that update something now and then. Every response is held against what was known when it was asked for, if that is
//! wanted.

use crate::shop::{Check, Connection, Finding, Popularity, Reads, Response, Source, Stock, Visit, Visitor};
use crate::{Result, Sample};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant as Moment, Sleep, sleep, sleep_until, timeout};

/// How long a visitor waits for a response before it hangs up.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a visitor waits before it connects again.
const AGAIN: Duration = Duration::from_millis(20);

/// The findings that are kept whole; all are counted.
const FINDINGS_MAX: usize = 20;

/// How a load is made.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The caches: reader n asks the one at n modulo their number.
    pub caches: Vec<SocketAddr>,
    /// Readers.
    pub readers: usize,
    /// How long a reader pauses between a response and its next request.
    pub pause: Duration,
    /// The places that updates are sent to: writer n sends to the one at n modulo their number.
    pub forms: Vec<SocketAddr>,
    /// Writers.
    pub writers: usize,
    /// Updates in a second, of all writers together. A writer that waits for an answer sends no other in the meantime.
    pub updates_per_s: f64,
    /// The contents of the shop.
    pub stock: Stock,
    /// The pages that are read.
    pub reads: Reads,
    /// How often each thing is asked for, and updated.
    pub popularity: Popularity,
    /// Whether every response is checked.
    pub checked: bool,
    /// Readers ask every cache for every page before they do anything else: nothing is cold then.
    pub all_first: bool,
    /// The seed of everything that visitors draw.
    pub seed: u64,
}

/// The counts of visitors.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Pages that were read.
    pub pages: u64,
    /// Those that a cache had.
    pub hits: u64,
    /// Requests without a page: no connection, no answer, or one that there is none now.
    pub failed: u64,
    /// Why the last of them has failed.
    pub last_failure: Option<String>,
    /// Updates that writers were told are done.
    pub updates: u64,
    /// Updates that have failed, or of which nobody knows.
    pub failed_updates: u64,
    /// Pages that lack what a writer had been told is done.
    pub older_than_told: u64,
    /// Pages that lack what somebody had been shown.
    pub older_than_seen: u64,
    /// Some of these.
    pub findings: Vec<Finding>,
    /// How long each page took.
    pub took: Sample,
    /// How long each update took.
    pub updates_took: Sample,
}

impl Tally {
    /// Pages that were older than they may be.
    pub fn stale(&self) -> u64 {
        self.older_than_told + self.older_than_seen
    }

    /// Adds those of another visitor, or of another time.
    pub fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.hits += other.hits;
        self.failed += other.failed;
        self.last_failure = other.last_failure.or(self.last_failure.take());
        self.updates += other.updates;
        self.failed_updates += other.failed_updates;
        self.older_than_told += other.older_than_told;
        self.older_than_seen += other.older_than_seen;
        self.findings.extend(other.findings);
        self.findings.truncate(FINDINGS_MAX);
        self.took.extend(&other.took);
        self.updates_took.extend(&other.updates_took);
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.last_failure = Some(why);
    }

    fn found(&mut self, findings: Vec<Finding>) {
        // A page is stale once, however much of it is.
        if let Some(finding) = findings.first() {
            match finding.source {
                Source::Told => self.older_than_told += 1,
                Source::Seen => self.older_than_seen += 1,
            }
        }
        let room = FINDINGS_MAX - self.findings.len().min(FINDINGS_MAX);
        self.findings.extend(findings.into_iter().take(room));
    }
}

/// A load under way. Dropping it ends it.
#[derive(Debug)]
pub struct Load {
    runtime: Option<Runtime>,
    tasks: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: LoadOptions,
    check: Check,
    ends: AtomicBool,
    /// Readers that have asked for all pages that they were to ask for first.
    ready: AtomicUsize,
    /// Those that have not should continue as the others do.
    is_time_up: AtomicBool,
    /// One for each visitor: no request waits for another's.
    tallies: Vec<Mutex<Tally>>,
}

impl Load {
    /// Begins it, on `threads` threads.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn start(options: LoadOptions, threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let tallies = (0..options.readers + options.writers).map(|_| Mutex::default()).collect();
        let shared = Shared {
            options,
            check: Check::default(),
            ends: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            is_time_up: AtomicBool::new(false),
            tallies,
        };
        let (shared, mut tasks) = (Arc::new(shared), Vec::new());
        for number in 0..shared.options.readers {
            tasks.push(runtime.spawn(read(Arc::clone(&shared), number)));
        }
        for number in 0..shared.options.writers {
            tasks.push(runtime.spawn(write(Arc::clone(&shared), number)));
        }
        Ok(Self { runtime: Some(runtime), tasks, shared })
    }

    /// Waits until every cache was asked for every page, if that comes first, but no longer than this: then readers
    /// leave the rest.
    pub fn wait_all_asked(&self, within: Duration) {
        let begun = Instant::now();
        while self.shared.ready.load(Ordering::Relaxed) < self.shared.options.readers && begun.elapsed() < within {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.is_time_up.store(true, Ordering::Relaxed);
    }

    /// Ends it without waiting for what is under way.
    ///
    /// # Errors
    /// A visitor has ended by itself: it has panicked.
    pub fn abandon(self) -> Result<()> {
        let is_whole = !self.tasks.iter().any(JoinHandle::is_finished);
        if is_whole { Ok(()) } else { Err("a visitor has panicked".into()) }
    }

    /// The counts since this was asked for the last time.
    pub fn take(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in &self.shared.tallies {
            sum.add(std::mem::take(&mut *lock(tally)));
        }
        sum
    }

    /// The hits of each cache since what was counted was taken the last time.
    pub fn hits_of_each(&self) -> Vec<u64> {
        let caches = self.shared.options.caches.len();
        let mut hits = vec![0; caches];
        for (reader, tally) in self.shared.tallies.iter().take(self.shared.options.readers).enumerate() {
            hits[reader % caches] += lock(tally).hits;
        }
        hits
    }

    /// The updates that were done since what was counted was taken the last time.
    pub fn updates(&self) -> u64 {
        self.shared.tallies.iter().map(|tally| lock(tally).updates).sum()
    }

    /// Ends it, and gives what was counted since it was taken the last time.
    ///
    /// # Errors
    /// A visitor has panicked.
    pub fn end(mut self) -> Result<Tally> {
        self.shared.ends.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut self.tasks);
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                for task in tasks {
                    task.await?;
                }
                Ok::<_, tokio::task::JoinError>(())
            })?;
        }
        Ok(self.take())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// The pages that a reader asks for first: the readers of a cache share them out.
    fn share(&self, number: usize) -> Vec<Visit> {
        let LoadOptions { caches, readers, reads, stock, .. } = &self.options;
        let (own, all) = (number / caches.len(), readers.div_ceil(caches.len()));
        reads.pages(stock).into_iter().skip(own).step_by(all).collect()
    }

    fn visitor(&self, number: usize) -> Visitor {
        let LoadOptions { stock, reads, popularity, seed, .. } = &self.options;
        Visitor::new(seed * 1000 + number as u64, *stock, *reads, popularity.clone())
    }
}

async fn read(shared: Arc<Shared>, number: usize) {
    let address = shared.options.caches[number % shared.options.caches.len()];
    let (mut visitor, mut line, tally) = (shared.visitor(number), Line::to(address), &shared.tallies[number]);
    if shared.options.all_first {
        for visit in shared.share(number) {
            if shared.goes_on() && !shared.is_time_up.load(Ordering::Relaxed) {
                line.ask(&visit).await;
            }
        }
    }
    shared.ready.fetch_add(1, Ordering::Relaxed);
    while shared.goes_on() {
        let visit = visitor.next_read();
        let begun = Instant::now();
        match line.ask(&visit).await {
            Some(response) if response.status() < 500 => {
                let took = begun.elapsed();
                let findings =
                    if shared.options.checked { shared.check.response(begun, response.versions()) } else { Vec::new() };
                let mut tally = lock(tally);
                tally.pages += 1;
                tally.hits += u64::from(response.is_hit());
                tally.took.push(took);
                tally.found(findings);
            }
            response => {
                let why =
                    response.map_or_else(|| "no connection, or no answer".to_owned(), |response| refused(&response));
                lock(tally).fail(why);
                sleep(AGAIN).await;
            }
        }
        if !shared.options.pause.is_zero() {
            sleep(shared.options.pause).await;
        }
    }
}

async fn write(shared: Arc<Shared>, number: usize) {
    let LoadOptions { forms, writers, readers, updates_per_s, .. } = &shared.options;
    let address = forms[number % forms.len()];
    let (mut visitor, mut line) = (shared.visitor(readers + number), Line::to(address));
    let tally = &shared.tallies[readers + number];
    let every = Duration::from_secs_f64(*writers as f64 / updates_per_s.max(0.001));
    // The writers take turns.
    let mut due = Moment::now() + every.mul_f64((number + 1) as f64 / *writers as f64);
    while shared.goes_on() {
        // An update may be far away, and the end near.
        let now = Moment::now();
        if due > now {
            sleep_until(due.min(now + Duration::from_millis(100))).await;
            continue;
        }
        due = (due + every).max(now);
        let visit = visitor.next_update();
        let begun = Instant::now();
        match line.ask(&visit).await {
            Some(response) if response.status() < 400 => {
                for (thing, version) in response.versions().filter(|_| shared.options.checked) {
                    shared.check.learn(thing, version, Source::Told);
                }
                let mut tally = lock(tally);
                tally.updates += 1;
                tally.updates_took.push(begun.elapsed());
            }
            _ => {
                lock(tally).failed_updates += 1;
                sleep(AGAIN).await;
            }
        }
    }
}

/// A refusal, in a line.
fn refused(response: &Response<'_>) -> String {
    const SAID_BYTES_MAX: usize = 200;
    let said = String::from_utf8_lossy(&response.body()[..response.body().len().min(SAID_BYTES_MAX)]);
    format!("{} {}", response.status(), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A visitor's connection to one place, and its patience with it.
struct Line {
    address: SocketAddr,
    connection: Option<Connection>,
    /// It continues from one request to the next: to set a timer for each costs as much as to read the response.
    timer: Pin<Box<Sleep>>,
}

impl Line {
    fn to(address: SocketAddr) -> Self {
        Self { address, connection: None, timer: Box::pin(sleep(PATIENCE)) }
    }

    /// Asks on its connection, or on a new one. After a failure there is none.
    async fn ask(&mut self, visit: &Visit) -> Option<Response<'_>> {
        let Self { address, connection, timer } = self;
        let mut open = match connection.take() {
            Some(open) => open,
            None => timeout(PATIENCE, Connection::open(*address)).await.ok()?.ok()?,
        };
        patiently(timer.as_mut(), open.send(visit)).await?.ok()?;
        Some(connection.insert(open).response())
    }
}

/// Waits for something as long as a visitor does.
async fn patiently<T>(mut timer: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    let (begun, mut work) = (Moment::now(), pin!(work));
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        while timer.as_mut().poll(cx).is_ready() {
            if begun.elapsed() >= PATIENCE {
                return Poll::Ready(None);
            }
            timer.as_mut().reset(begun + PATIENCE);
        }
        Poll::Pending
    })
    .await
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
