//! A watcher at work: a machine on the network, and a thread that does what it wants done at the hub.

use crate::under_way::Effect;
use crate::watcher::{EFFECTS, Standing, Watcher};
use coherence::{Announced, Fence, Site, SourceLease, Update};
use machine::RoleId;
use net::{AddressError, ConnectError, Handle, Host, Machines, Runtime, UpstreamConfig, UpstreamState};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io, mem};
use tokio::sync::oneshot;
use tokio::time::{self, Instant};
use types::ClientId;

/// How long a watcher that ends waits until everything is marked.
const MARKED_WITHIN: Duration = Duration::from_secs(5);

/// How a watcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// There is no lease: everything is marked, and commits wait no longer than for the last one.
    Apart,
    /// The store gives none.
    NotLeased,
    /// There is one, and everything is marked until no cache has anything of before.
    CatchingUp,
    /// Commits are told one by one.
    Watching,
    /// It has ended, its hub has, or the store refuses it for good: everything stays marked.
    Ended,
}

/// A watcher's state and counts.
#[derive(Clone, Debug)]
pub struct WatchStatus {
    /// How it is.
    pub state: WatchState,
    /// The spaces whose changes it learns of.
    pub spaces: Vec<u32>,
    /// Changes of pages that the store has made visible and told of.
    pub changes: u64,
    /// Why the store is not reached, or one of its nodes that have shards.
    pub trouble: Option<ConnectError>,
}

/// Why a watcher does not start.
#[derive(Debug)]
pub enum StartError {
    /// The store's addresses are none.
    Address(AddressError),
    /// The hub is none that takes a source's lease: it is elsewhere, or was not told so.
    Hub,
    /// The system gives no thread.
    System(io::Error),
}

/// A watcher at work. When it is dropped, there is no watcher any more, and everything stays marked for as long as the
/// hub is there.
pub struct Watch {
    watcher: Handle<Watcher>,
    host: Arc<Host>,
    role: RoleId,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Vec<Update>>>,
}

impl Watch {
    /// Begins to watch the store at these addresses for the hub of a site, which expects that
    /// ([`SiteConfig::within_source`](coherence::SiteConfig::within_source)).
    ///
    /// # Errors
    /// Why it does not start. A store that is not there is waited for.
    pub fn start(store: &str, site: &Site, runtime: &Runtime) -> Result<Self, StartError> {
        let upstream = UpstreamConfig::parse(messages::CLIENT, store).map_err(StartError::Address)?;
        let lease = site.source_lease().ok_or(StartError::Hub)?;
        // The standard library's hasher is the nearest randomness: each is keyed again.
        let client = ClientId(RandomState::new().hash_one(()));
        let tasks = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StartError::System)?;
        let mut machines = Machines::new();
        let (role, machine) = machines.add(Watcher::new(client));
        let host = Host::start(machines, runtime);
        let watcher = Handle::new(machine, host.driver(role));
        let (stop, stopped) = oneshot::channel();
        let task = Task { watcher: Leaves(watcher.clone()), announced: Announced::new(site.updates()), lease };
        let thread = thread::Builder::new().name("thorp-watch".to_owned());
        let thread = thread.spawn(move || tasks.block_on(task.run(stopped))).map_err(StartError::System)?;
        host.connect(role, upstream);
        Ok(Self { watcher, host, role, stop: Some(stop), thread: Some(thread) })
    }

    /// How it is.
    pub fn status(&self) -> WatchStatus {
        let is_refused = matches!(self.host.server_state(self.role), UpstreamState::Over(_));
        let now = self.watcher.driver().now();
        let has_ended = is_refused || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let (awaited, status) = self.watcher.call(|watcher| {
            let status = WatchStatus {
                state: if has_ended || watcher.is_over() { WatchState::Ended } else { watcher.standing(now).into() },
                spaces: watcher.spaces().to_vec(),
                changes: watcher.applied(),
                trouble: None,
            };
            (watcher.awaited(now).collect::<Vec<_>>(), status)
        });
        let trouble = awaited.into_iter().find_map(|upstream| match self.host.upstream_state(self.role, upstream) {
            UpstreamState::Down(why) | UpstreamState::Over(why) => Some(why),
            UpstreamState::Connecting | UpstreamState::Up(_) => None,
        });
        WatchStatus { trouble, ..status }
    }

    /// Ends it. Everything is marked for as long as the result is kept; the store waits until the watcher's lease is
    /// over.
    pub fn stop(mut self) -> Vec<Update> {
        self.end()
    }

    fn end(&mut self) -> Vec<Update> {
        drop(self.stop.take());
        // A panic there has been told.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl From<Standing> for WatchState {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Apart => Self::Apart,
            Standing::NotLeased => Self::NotLeased,
            Standing::CatchingUp => Self::CatchingUp,
            Standing::Watching => Self::Watching,
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.status()).finish()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end().into_iter().for_each(mem::forget);
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Hub => {
                f.write_str("a watcher of a store has its hub in its own process, within whose leases homes answer")
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// The thread's watcher, which leaves when the thread ends, by a panic, too: one that continued without it would have
/// commits wait for promises that nobody gives.
struct Leaves(Handle<Watcher>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.call(Watcher::leave);
    }
}

/// The thread's own.
struct Task {
    watcher: Leaves,
    announced: Announced,
    lease: SourceLease,
}

impl Task {
    /// Watches until it is stopped, or the hub ends; gives what stays marked.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) -> Vec<Update> {
        loop {
            self.settle();
            let watcher = self.watcher.0.clone();
            tokio::select! {
                is_over = effects(&watcher) => if is_over { break },
                released = self.announced.next() => match released {
                    Ok(update) => self.watcher.0.call(|watcher| watcher.released(update)),
                    // Without a hub no home has a lease any more.
                    Err(_) => break,
                },
                _ = &mut stopped => break,
            }
        }
        self.leave().await
    }

    /// Has done what the watcher wants done, in its order: a home is given more of a lease behind what it has to mark.
    fn settle(&mut self) {
        while let Some(effect) = self.watcher.0.call(Watcher::poll_effect) {
            match effect {
                Effect::Update(update, dependencies) => self.announced.begin(update, dependencies),
                Effect::Visible(update) => self.announced.end(update),
                Effect::Lease(until) => self.lease.until(until),
            }
        }
        if self.watcher.0.call(|watcher| watcher.is_caught_up()) {
            self.announced.caught_up(Fence::NONE);
        }
    }

    /// Has everything marked.
    async fn leave(mut self) -> Vec<Update> {
        self.watcher.0.call(Watcher::leave);
        self.settle();
        let until = Instant::now() + MARKED_WITHIN;
        while !self.watcher.0.call(|watcher| watcher.is_all_marked()) {
            let Ok(Ok(update)) = time::timeout_at(until, self.announced.next()).await else { break };
            self.watcher.0.call(|watcher| watcher.released(update));
            self.settle();
        }
        self.announced.take()
    }
}

/// Waits until the watcher wants something done; says whether it is over.
async fn effects(watcher: &Handle<Watcher>) -> bool {
    poll_fn(|cx| {
        let (is_over, has_effects) = watcher.call(|watcher| (watcher.is_over(), watcher.has_effects()));
        if is_over || has_effects {
            return Poll::Ready(is_over);
        }
        watcher.driver().wake_on(EFFECTS, cx.waker());
        Poll::Pending
    })
    .await
}
