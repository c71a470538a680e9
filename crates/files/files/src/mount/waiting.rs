//! Requests that wait for the newest revision: in a list, so that they take no thread from those that need not wait.

use super::requests::Request;
use super::threads::{LOOK_EVERY, Threads, Woken};
use super::views::{Mounted, Wait};
use crate::line::lock;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use types::Time;

/// How long a request waits. Then it gets the revision that is here, or is refused.
const WITHIN: Duration = Duration::from_secs(10);

/// How often requests that wait are looked at without news, as their time may be over.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    requests: Mutex<Vec<One>>,
    /// Whether none may wait any longer, as the mount ends.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct One {
    request: Request,
    since: Time,
    until: Instant,
}

impl Waiting {
    /// Starts the thread that answers requests which wait. It ends with the others of the mount.
    pub(super) fn start(self: &Arc<Self>, mounted: &Arc<Mounted>, threads: &mut Threads) -> io::Result<()> {
        let (waiting, of) = (self.clone(), mounted.clone());
        threads.follow("mount-waiting", mounted, Woken::Parked, move || {
            waiting.answer_all(&of);
            if lock(&waiting.requests).is_empty() { LOOK_EVERY } else { AGAIN_AFTER }
        })
    }

    /// Answers a request, at once or when the newest revision is here.
    pub(super) fn answer(&self, mounted: &Mounted, request: Request) {
        let wait = Wait { since: None, is_over: self.is_over.load(SeqCst) };
        self.answer_by(mounted, request, Instant::now() + WITHIN, wait);
    }

    fn answer_by(&self, mounted: &Mounted, request: Request, until: Instant, wait: Wait) {
        if let Some((request, since)) = request.answer(mounted, wait) {
            lock(&self.requests).push(One { request, since, until });
            // The news may have come in between.
            mounted.parked.notify_one();
        }
    }

    /// Looks at all requests again.
    fn answer_all(&self, mounted: &Mounted) {
        let waiting = mem::take(&mut *lock(&self.requests));
        for One { request, since, until } in waiting {
            let is_over = self.is_over.load(SeqCst) || Instant::now() >= until;
            self.answer_by(mounted, request, until, Wait { since: Some(since), is_over });
        }
    }

    /// Has no request wait from now on. The kernel keeps locks for those that do.
    pub(super) fn end(&self, mounted: &Mounted) {
        self.is_over.store(true, SeqCst);
        self.answer_all(mounted);
    }
}
