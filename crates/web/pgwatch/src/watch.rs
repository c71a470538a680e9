//! A watcher at work: a thread with a connection to the database, and one for questions.

use crate::awaited::Awaited;
use crate::config::WatchConfig;
use crate::error::WatchError;
use crate::lsn::{Lsn, Xid};
use crate::pgoutput::Message;
use crate::probe::Probe;
use crate::refusal::StreamError;
use crate::replication::Frame;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::standing::{Answer, Standing};
use crate::turn::{self, Opened, open, say_end};
use crate::watcher::{Effect, Server, Watcher};
use coherence::{Announced, Fence, SourceLease, Update, Updates};
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io, mem};
use tokio::sync::oneshot;
use tokio::time::{self, Instant};
use tokio_postgres::Client;
use types::Broken;

/// How a watcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// There is no connection: everything is marked, and commits wait.
    Apart,
    /// There is one, and commits do not wait for this watcher: everything is marked.
    NotAwaited,
    /// Commits wait, and everything is marked until everything that was committed before is visible.
    CatchingUp,
    /// Commits are told one by one.
    Watching,
    /// It was told to leave: caches get no leases any more, and commits continue until the last one is over.
    Leaving,
    /// It was stopped, or its hub has ended: everything stays marked.
    Ended,
}

/// A watcher's state and counts.
#[derive(Clone, Debug)]
pub struct WatchStatus {
    /// How it is.
    pub state: WatchState,
    /// The position that the database may go to.
    pub confirmed: Lsn,
    /// Commits that were heard and change something of the publication.
    pub commits: u64,
    /// Commits that are not confirmed.
    pub unconfirmed: usize,
    /// Commits that are confirmed, and that no snapshot had yet.
    pub unseen: usize,
    /// The number before which all transactions have to end until it has caught up, if it waits for some ([`running`]).
    ///
    /// [`running`]: crate::running
    pub awaits_before: Option<u64>,
    /// Commits that were looked for, and were visible before they were confirmed: their sessions do not wait, or were
    /// cancelled.
    pub unheld: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Why the last connection ended, or could not be made; or why commits do not wait.
    pub last_error: Option<String>,
}

/// A watcher at work. When it is dropped, there is no watcher any more, and everything stays marked for as long as the
/// hub knows of it.
pub struct Watch {
    status: Arc<Shown>,
    stop: Option<oneshot::Sender<()>>,
    leave: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Vec<Update>>>,
}

/// The status, for whoever waits for it.
struct Shown {
    status: Mutex<WatchStatus>,
    changed: Condvar,
}

impl Watch {
    /// Begins to watch. If the hub is one of this process, it takes the `lease` within which its homes answer
    /// ([`SiteConfig::within_source`](coherence::SiteConfig::within_source)).
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(config: WatchConfig, hub: Updates, lease: Option<SourceLease>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let (leave, leaves) = oneshot::channel();
        let status = WatchStatus {
            state: WatchState::Apart,
            confirmed: Lsn(0),
            commits: 0,
            unconfirmed: 0,
            unseen: 0,
            awaits_before: None,
            unheld: 0,
            connections: 0,
            last_error: None,
        };
        let status = Arc::new(Shown { status: Mutex::new(status), changed: Condvar::new() });
        let watcher = Watcher::new(config.map.clone(), Broken::NONE);
        let announced = Announced::new(hub.clone());
        let shown = status.clone();
        let mut task = Task {
            config,
            watcher,
            announced,
            hub,
            lease,
            leaves: Some(leaves),
            shown,
            fence: None,
            confirm: None,
            asks: false,
            commits: 0,
            begun: None,
            ended: None,
        };
        let thread = thread::Builder::new().name("thorp-watch".to_owned()).spawn(move || {
            runtime.block_on(async {
                let error = tokio::select! {
                    error = task.run() => error,
                    _ = stopped => None,
                };
                task.end(error).await
            })
        })?;
        Ok(Self { status, stop: Some(stop), leave: Some(leave), thread: Some(thread) })
    }

    /// How it is.
    pub fn status(&self) -> WatchStatus {
        self.status.lock().clone()
    }

    /// Waits until it is in this state; says whether it is.
    pub fn wait_for(&self, state: WatchState, within: Duration) -> bool {
        let status = self.status.status.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.status.changed.wait_timeout_while(status, within, |status| status.state != state);
        wait.unwrap_or_else(PoisonError::into_inner).0.state == state
    }
}

impl Watch {
    /// Has it end when no home of this process's hub has a lease any more, and say so in the database: the watcher that
    /// comes next does not hold commits for as long as a lease. Until then commits continue, and caches answer within
    /// the leases that they have. Without a connection, or a hub of this process, it ends at once. See
    /// [`WatchState::Ended`].
    pub fn leave(&mut self) {
        // It may have ended.
        let _ = self.leave.take().map(|leave| leave.send(()));
    }

    /// Ends it. Everything is marked for as long as the result is kept, which should be until another watcher of the
    /// same hub has caught up.
    pub fn stop(mut self) -> Vec<Update> {
        self.end()
    }

    fn end(&mut self) -> Vec<Update> {
        drop(self.stop.take());
        // A panic there has been told.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
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

impl Shown {
    fn lock(&self) -> std::sync::MutexGuard<'_, WatchStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own.
struct Task {
    config: WatchConfig,
    watcher: Watcher,
    announced: Announced,
    hub: Updates,
    lease: Option<SourceLease>,
    /// It is told to leave there, unless it was.
    leaves: Option<oneshot::Receiver<()>>,
    shown: Arc<Shown>,
    /// The number of this connection's turn with the slot, once it is known to have been drawn within that.
    fence: Option<Fence>,
    /// The position that the database should be told.
    confirm: Option<Lsn>,
    asks: bool,
    commits: u64,
    /// The transaction that was begun last in the stream, and that which ended last.
    begun: Option<Xid>,
    ended: Option<Xid>,
}

type Question = Pin<Box<dyn Future<Output = Result<Snapshot, WatchError>>>>;

/// The things that wake a watcher.
enum Event {
    Frame(Frame),
    Released(u64),
    Snapshot(Snapshot),
    Standing(Answer),
    /// Commits wait for this watcher from this transaction on, or do not.
    Awaited(Option<u64>),
    Ping,
    Leave,
}

impl Task {
    /// Watches for as long as there is a hub, and until it has left.
    async fn run(&mut self) -> Option<WatchError> {
        loop {
            let error = match self.connected().await {
                Ok(()) => return None,
                Err(WatchError::Hub) => return Some(WatchError::Hub),
                Err(error) => error,
            };
            self.watcher.lost();
            self.fence = None;
            self.settle();
            self.show(WatchState::Apart, Some(&error.to_string()));
            let pause = time::sleep(self.config.retry);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    released = self.announced.next() => match released {
                        Ok(update) => self.watcher.released(update),
                        Err(ended) => return Some(ended.into()),
                    },
                    () = told_to_leave(&mut self.leaves) => return None,
                }
                self.settle();
            }
        }
    }

    /// From a connection to its end; `Ok` if it was told to leave, and has.
    async fn connected(&mut self) -> Result<(), WatchError> {
        if self.leaves.is_none() {
            return Ok(());
        }
        self.settle();
        let patience = self.config.lease.max(Duration::from_secs(5));
        let opened = tokio::select! {
            opened = time::timeout(patience, open(&self.config)) => opened.map_err(|_| WatchError::Silent)?,
            () = told_to_leave(&mut self.leaves) => return Ok(()),
        };
        let Opened { mut replication, client, server, process, next, fence } = opened?;
        // They were for the connection before.
        (self.confirm, self.asks) = (None, false);
        (self.begun, self.ended) = (None, None);
        self.watcher.connected(server);
        self.shown.lock().connections += 1;

        let WatchConfig { lease, others_lease, .. } = self.config;
        let mut slot = Slot::got(self.hub.now(), lease, others_lease, Broken::NONE);
        let (client, own) = (Arc::new(client), (next, server));
        let mut awaited = Awaited::new(self.config.clone());
        let mut standing = Standing::new(client.clone(), self.config.slot.clone(), process.clone());
        let mut asker = Asker { client: client.clone(), silence: lease, pause: Duration::ZERO, question: None };
        let (mut probe, mut told, mut ping_at) = (Probe::new(next), Lsn(0), Instant::now());
        loop {
            self.settle();
            let now = self.hub.now();
            let ends = slot.ends_at().map(|at| at.since(now));
            if ends.is_some_and(|ends| ends.is_zero()) {
                // Nothing is confirmed behind this word, so the next watcher hears it.
                return say_end(&client, &self.config.slot, &process, server).await;
            }
            let waits = slot.confirms_at().since(now);
            let is_held = !waits.is_zero() || awaited.is_proving() || probe.is_under_way();
            if let Some(through) = self.confirm.take_if(|_| !is_held) {
                if !self.announced.are_released() {
                    return Err(WatchError::HubSilent);
                }
                told = through;
                replication.reply(through, false).await?;
            }
            if mem::take(&mut self.asks) {
                asker.ask();
            }
            self.show_connected(awaited.why_not(), ends.is_some());
            let has_room = self.watcher.has_room();
            let event = tokio::select! {
                frame = replication.next(), if has_room => Event::Frame(frame?),
                released = self.announced.next() => Event::Released(released?),
                snapshot = asker.answer() => Event::Snapshot(snapshot?),
                answer = standing.answer() => Event::Standing(answer?),
                next = awaited.proof() => Event::Awaited(next?),
                () = time::sleep_until(ping_at) => Event::Ping,
                () = told_to_leave(&mut self.leaves) => Event::Leave,
                () = time::sleep(waits), if !waits.is_zero() => continue,
                () = time::sleep(ends.unwrap_or_default()), if ends.is_some() => continue,
            };
            match event {
                Event::Frame(frame) => {
                    self.hear(frame, &mut slot, own)?;
                    while self.watcher.has_room() {
                        let Some(frame) = replication.take()? else { break };
                        self.hear(frame, &mut slot, own)?;
                    }
                    if let Some(committed) = self.ended.take()
                        && self.watcher.is_caught_up()
                        && probe.begin(committed)
                    {
                        asker.ask();
                    }
                }
                Event::Released(update) => self.watcher.released(update),
                Event::Snapshot(snapshot) => {
                    self.shown.lock().unheld += u64::from(probe.end(&snapshot));
                    let before = self.watcher.under_way().1;
                    self.watcher.snapshot(&snapshot);
                    asker.answered(self.watcher.under_way().1 < before);
                }
                Event::Standing(Answer { is_ours: false, .. }) => return Err(WatchError::SlotLost),
                Event::Standing(Answer { standbys, .. }) => {
                    // It was drawn before this was asked, and after the slot was got.
                    self.fence = Some(fence);
                    if awaited.listed(&standbys) {
                        self.watcher.not_awaited();
                    }
                    if let (Some(until), Some(lease)) = (slot.proved(self.hub.now()), &self.lease) {
                        lease.until(until);
                    }
                }
                // Homes have leases of a hub elsewhere, which stays.
                Event::Leave if self.lease.is_none() => return Ok(()),
                Event::Leave => slot.leave(),
                Event::Awaited(Some(next)) => {
                    // The commit that has shown it was before.
                    probe = Probe::new(next);
                    self.watcher.awaited(next);
                }
                // The list is read again.
                Event::Awaited(None) => {}
                Event::Ping => {
                    ping_at = Instant::now() + self.config.ping;
                    let now = self.hub.now();
                    // The next time that it is looked would be too late.
                    if slot.is_doubtful(now + self.config.ping) {
                        return Err(WatchError::Silent);
                    }
                    if slot.is_due() {
                        slot.ask(now);
                        standing.ask();
                    }
                    // Never less than before: a slot may go back.
                    told = if is_held { told } else { self.watcher.confirmed() };
                    replication.reply(told, true).await?;
                }
            }
        }
    }

    /// Something has come in the stream of a connection to this server, whose own word is that of the transaction
    /// `own`.
    fn hear(&mut self, frame: Frame, slot: &mut Slot, (own, server): (u64, Server)) -> Result<(), StreamError> {
        match frame {
            Frame::Change(bytes) => {
                let message = Message::parse(&bytes)?;
                match message {
                    Message::Begin { xid } => self.begun = Some(xid),
                    Message::Commit { .. } => {
                        self.commits += 1;
                        self.ended = self.begun.take();
                    }
                    Message::Said { is_transactional: true, prefix, content } => {
                        let is_own = self.begun == Some(Xid(own as u32));
                        let is_alone = turn::word(prefix, content, server).is_some_and(|word| slot.heard(word, is_own));
                        if let Some(lease) = self.lease.as_ref().filter(|_| is_alone) {
                            lease.succeeds_nobody();
                        }
                    }
                    _ => {}
                }
                self.watcher.hear(&message)
            }
            // A message outside of transactions is nobody's.
            Frame::LargeChange(head) if head.starts_with(b"M\0") => Ok(()),
            Frame::LargeChange(_) => self.watcher.overlooked(),
            Frame::Keepalive(end, wants_reply) => {
                self.watcher.keepalive(end, wants_reply);
                Ok(())
            }
        }
    }

    /// Has done what the watcher wants done, or keeps it for the connection.
    fn settle(&mut self) {
        while let Some(effect) = self.watcher.poll_effect() {
            match effect {
                Effect::Update(update, dependencies) => self.announced.begin(update, dependencies),
                Effect::Confirm(through) => self.confirm = Some(through),
                Effect::AskSnapshot => self.asks = true,
                Effect::Visible(update) => self.announced.end(update),
            }
        }
        if let Some(fence) = self.fence.filter(|_| self.watcher.is_caught_up()) {
            self.announced.caught_up(fence);
        }
    }

    /// There is a connection, for which commits may not wait.
    fn show_connected(&self, why_not: Option<&str>, is_leaving: bool) {
        let state = match self.watcher.is_caught_up() {
            _ if is_leaving => WatchState::Leaving,
            _ if why_not.is_some() => WatchState::NotAwaited,
            true => WatchState::Watching,
            false => WatchState::CatchingUp,
        };
        self.show(state, why_not);
    }

    fn show(&self, state: WatchState, error: Option<&str>) {
        let mut status = self.shown.lock();
        status.state = state;
        status.confirmed = self.watcher.confirmed();
        status.commits = self.commits;
        (status.unconfirmed, status.unseen) = self.watcher.under_way();
        status.awaits_before = self.watcher.awaits_before();
        if let Some(error) = error {
            status.last_error = Some(error.to_owned());
        }
        self.shown.changed.notify_all();
    }

    /// Has everything marked, and gives what is.
    async fn end(&mut self, error: Option<WatchError>) -> Vec<Update> {
        self.watcher.lost();
        self.settle();
        let until = Instant::now() + MARKED_WITHIN;
        while !self.watcher.is_all_marked() {
            // Without a hub nothing is released, nor unmarked. One elsewhere marks everything by itself, as its source
            // is away.
            let Ok(Ok(update)) = time::timeout_at(until, self.announced.next()).await else { break };
            self.watcher.released(update);
            self.settle();
        }
        let mut status = self.shown.lock();
        status.state = WatchState::Ended;
        status.last_error = error.map(|error| error.to_string());
        self.shown.changed.notify_all();
        self.announced.take()
    }
}

/// Waits until somebody says so: once.
async fn told_to_leave(by: &mut Option<oneshot::Receiver<()>>) {
    let Some(receiver) = by else { return future::pending().await };
    let said = receiver.await;
    *by = None;
    if said.is_err() {
        // Nobody can say it any more.
        future::pending::<()>().await;
    }
}

/// The questions for snapshots, one at a time.
struct Asker {
    client: Arc<Client>,
    silence: Duration,
    /// Nothing new was seen last time: the next question waits for as long.
    pause: Duration,
    question: Option<Question>,
}

/// How long a watcher that ends waits until everything is marked.
const MARKED_WITHIN: Duration = Duration::from_secs(5);

/// The longest pause between questions.
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Asker {
    fn ask(&mut self) {
        let (client, pause, silence) = (self.client.clone(), self.pause, self.silence);
        self.question = Some(Box::pin(async move {
            if !pause.is_zero() {
                time::sleep(pause).await;
            }
            let row = time::timeout(silence, client.query_one("SELECT pg_current_snapshot()::text", &[]));
            let row = row.await.map_err(|_| WatchError::Silent)??;
            let text: &str = row.try_get(0)?;
            text.parse().map_err(|_| WatchError::Unexpected("what is no snapshot"))
        }));
    }

    /// The answer, if there is a question.
    async fn answer(&mut self) -> Result<Snapshot, WatchError> {
        match &mut self.question {
            Some(question) => {
                let answer = question.await;
                self.question = None;
                answer
            }
            None => future::pending().await,
        }
    }

    fn answered(&mut self, is_news: bool) {
        let longer = (2 * self.pause).clamp(Duration::from_millis(1), PAUSE_MAX);
        self.pause = if is_news { Duration::ZERO } else { longer };
    }
}
