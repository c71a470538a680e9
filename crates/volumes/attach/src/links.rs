//! Sessions with holders, of an owner or of a host that takes over: a small machine for each, on a host of its own,
//! which comes up again by itself whenever it was lost.
//!
//! ```text
//!   owner, under its lock --push--> [ Line ] --settle--> the machine --> socket     (the thread of the write)
//!   owner, under its lock <--take-- [ Line ] <---------- the machine <-- socket     (the thread that has read it)
//! ```
//! 1. Messages leave in the order in which they were pushed, whichever thread settles, by the thread that does; and not
//!    before, whatever is heard in the meantime: each time that some leave costs a way through the system, here and at
//!    the holder.
//! 2. A message for a session that is gone is dropped: a line counts sessions, and a message is for that one whose
//!    beginning its sender had taken.
//! 3. No lock of the owner's is held when the machine's is taken, nor the other way: a line's own is held for a push.

mod asking;

pub(crate) use asking::Asking;

use machine::{Driver, Goodbye, Machine, Output, Parcel, Port, RoleId, UpstreamId, Waiter};
use machines::messages::holder::{FromHolder, PartitionId, ToHolder};
use net::{Host, Machines, Runtime, UpstreamConfig};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;
use std::{fmt, mem};
use types::{GoodbyeReason, Time};

/// The number under which a listener waits for news of its line.
const NEWS: Waiter = Waiter(1);

/// A holder that is not there is looked for at least so often.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A party that hears holders.
pub(crate) trait Listener: Send + Sync {
    /// There is news of this one: see [`Line::take`]. Called without a lock, by one thread at a time for each line.
    fn news(&self, partition: PartitionId);
}

/// News of a line.
#[derive(Debug)]
pub(crate) enum News {
    /// There is a session.
    Up,
    /// There is none any more.
    Down,
    /// The holder has said something.
    Heard(FromHolder),
}

/// The messages on their way to a holder, and the news of it.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<Queues>);

#[derive(Debug, Default)]
struct Queues {
    out: VecDeque<(u64, ToHolder)>,
    /// So many of them should leave now.
    settled: usize,
    news: VecDeque<News>,
    /// The sessions that have begun, and those of them that the owner knows of.
    begun: u64,
    known: u64,
    is_up: bool,
    /// The session should be ended for this reason, and another one begun.
    ends: Option<GoodbyeReason>,
}

impl Line {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message for the session that is known. It leaves with the next [`Link::settle`].
    pub(crate) fn push(&self, message: ToHolder) {
        let mut queues = self.queues();
        let session = queues.known;
        if session == queues.begun && queues.is_up {
            queues.out.push_back((session, message));
        }
    }

    /// The session that is known ends after what was pushed, and another one is begun.
    pub(crate) fn end(&self, reason: GoodbyeReason) {
        let mut queues = self.queues();
        if queues.known == queues.begun && queues.is_up {
            queues.ends = Some(reason);
        }
    }

    /// Everything that was pushed should leave.
    fn settle(&self) {
        let mut queues = self.queues();
        queues.settled = queues.out.len();
    }

    /// The news that there are.
    pub(crate) fn take(&self) -> VecDeque<News> {
        let mut queues = self.queues();
        let news = mem::take(&mut queues.news);
        queues.known = queues.begun;
        news
    }
}

/// The machine.
#[derive(Debug)]
struct LinkMachine {
    line: Arc<Line>,
    outputs: VecDeque<Output>,
}

impl LinkMachine {
    fn news(&mut self, news: News) {
        let mut queues = self.line.queues();
        match news {
            News::Up => (queues.begun, queues.is_up) = (queues.begun + 1, true),
            News::Down => {
                queues.is_up = false;
                (queues.ends, queues.settled) = (None, 0);
                queues.out.clear();
            }
            News::Heard(_) => {}
        }
        queues.news.push_back(news);
        self.outputs.push_back(Output::Wake(NEWS));
    }
}

impl Machine for LinkMachine {
    fn connected(&mut self, _: Time, _: Port) {
        self.news(News::Up);
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.news(News::Down);
    }

    fn handle(&mut self, _: Time, _: Port, message: Parcel) {
        if let Ok(message) = message.open::<FromHolder>() {
            self.news(News::Heard(message));
        }
    }

    fn stop(&mut self, _: &str) {
        self.news(News::Down);
    }

    fn poll_output(&mut self) -> Option<Output> {
        let mut queues = self.line.queues();
        let begun = queues.begun;
        while queues.settled > 0
            && let Some((session, message)) = queues.out.pop_front()
        {
            queues.settled -= 1;
            if session == begun {
                return Some(Output::Send(Port::SERVER, Parcel::new(message), None));
            }
        }
        let ends = if queues.out.is_empty() { queues.ends.take() } else { None };
        drop(queues);
        let end = ends.map(|reason| Output::End(Port::SERVER, reason, "another session is begun".to_owned()));
        end.or_else(|| self.outputs.pop_front())
    }

    /// Its owner says when a holder is no longer wanted.
    fn tries_again(&self, _: UpstreamId, _: GoodbyeReason) -> bool {
        true
    }
}

/// A link: it is open, or is being opened, until it is dropped.
pub(crate) struct Link {
    line: Arc<Line>,
    address: String,
    driver: Arc<dyn Driver>,
    _host: Arc<Host>,
}

impl Link {
    /// Opens a session with the holder of a partition at an address, again and again.
    pub(crate) fn open(
        partition: PartitionId,
        address: String,
        runtime: &Runtime,
        listener: Weak<dyn Listener>,
    ) -> Arc<Self> {
        let line = Arc::new(Line::default());
        let mut machines = Machines::new();
        machines.add(LinkMachine { line: line.clone(), outputs: VecDeque::new() });
        let host = Host::start(machines, runtime);
        let driver = host.driver(RoleId::ONLY);
        let link = Arc::new(Self { line, address: address.clone(), driver, _host: host.clone() });
        let tells = Arc::new(Tells {
            partition,
            link: Arc::downgrade(&link),
            listener,
            is_told: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
        });
        tells.wake();
        let config =
            UpstreamConfig { pause_max: PAUSE_MAX, ..UpstreamConfig::new(machines::messages::holder::OWNER, address) };
        host.connect(RoleId::ONLY, config);
        link
    }

    /// Its line.
    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Where the holder is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends what was pushed. The caller holds no lock that a listener takes.
    pub(crate) fn settle(&self) {
        self.line.settle();
        self.driver.settle();
    }

    /// Says goodbye, so that the holder need not find out.
    pub(crate) fn close(&self) {
        self.line.push(Goodbye { reason: GoodbyeReason::Done, text: String::new() }.into());
        self.settle();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Tells a listener of news, by the thread that has read them, which holds no lock then.
struct Tells {
    partition: PartitionId,
    link: Weak<Link>,
    listener: Weak<dyn Listener>,
    /// A thread is telling.
    is_told: AtomicBool,
    /// There were more in the meantime.
    has_news: AtomicBool,
}

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.has_news.store(true, SeqCst);
        while self.has_news.load(SeqCst) && !self.is_told.swap(true, SeqCst) {
            self.has_news.store(false, SeqCst);
            if let (Some(link), Some(listener)) = (self.link.upgrade(), self.listener.upgrade()) {
                // Before they are taken: what comes later wakes again.
                link.driver.wake_on(NEWS, &Waker::from(self.clone()));
                listener.news(self.partition);
            }
            self.is_told.store(false, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::messages::holder::Forget;

    #[test]
    fn messages_leave_when_they_are_settled_and_the_session_ends_behind_them() {
        let line = Arc::new(Line::default());
        let mut machine = LinkMachine { line: line.clone(), outputs: VecDeque::new() };
        machine.connected(Time::ZERO, Port::SERVER);
        assert!(matches!(machine.poll_output(), Some(Output::Wake(NEWS))));
        line.take();
        line.push(Forget.into());
        line.settle();
        line.push(Forget.into());
        line.end(GoodbyeReason::Silent);
        assert!(matches!(machine.poll_output(), Some(Output::Send(..))));
        // The machine may be called for other things in the meantime.
        assert!(machine.poll_output().is_none());
        line.settle();
        assert!(matches!(machine.poll_output(), Some(Output::Send(..))));
        assert!(matches!(machine.poll_output(), Some(Output::End(..))));
        line.push(Forget.into());
        line.settle();
        machine.disconnected(Time::ZERO, Port::SERVER);
        assert!(matches!(machine.poll_output(), Some(Output::Wake(NEWS))));
        assert!(machine.poll_output().is_none());
    }
}
