//! Requests that wait for the newest revision or for content: in a list, or as tasks, so that they take no thread from
//! those that need not wait.

use super::requests::{Awaits, Request};
use super::threads::{LOOK_EVERY, Threads, Woken};
use super::views::{Mounted, Wait};
use crate::line::lock;
use crate::member::fetching::Here;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use types::Time;

/// How long a request waits. Then it gets the revision that is here, or is refused.
const WITHIN: Duration = Duration::from_secs(10);

/// How often requests that wait are looked at without news, as their time may be over.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The requests that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    requests: Mutex<Vec<One>>,
    /// Whether none may wait any longer, as the mount ends.
    is_over: AtomicBool,
    /// Has the tasks that wait for content, unless the mount ends. They read what has come, one behind the other.
    tasks: Mutex<Option<Runtime>>,
}

#[derive(Debug)]
struct One {
    request: Request,
    since: Time,
    until: Instant,
}

impl Waiting {
    /// Nothing waits yet.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let tasks = Builder::new_multi_thread().worker_threads(1).thread_name("mount-content").build()?;
        Ok(Arc::new(Self {
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
            tasks: Mutex::new(Some(tasks)),
        }))
    }

    /// Starts the thread that answers requests which wait. It ends with the others of the mount.
    pub(super) fn start(self: &Arc<Self>, mounted: &Arc<Mounted>, threads: &mut Threads) -> io::Result<()> {
        let (waiting, of) = (self.clone(), mounted.clone());
        threads.follow("mount-waiting", mounted, Woken::Parked, move || {
            waiting.answer_all(&of);
            if lock(&waiting.requests).is_empty() { LOOK_EVERY } else { AGAIN_AFTER }
        })
    }

    /// Answers a request, at once or when the newest revision is here.
    pub(super) fn answer(self: &Arc<Self>, mounted: &Arc<Mounted>, request: Request) {
        let wait = Wait { since: None, is_over: self.is_over.load(SeqCst) };
        self.answer_by(mounted, request, Instant::now() + WITHIN, wait, Here::default());
    }

    /// Answers a request for which some content was fetched.
    fn answer_by(
        self: &Arc<Self>,
        mounted: &Arc<Mounted>,
        request: Request,
        until: Instant,
        wait: Wait,
        mut here: Here,
    ) {
        match request.answer(mounted, wait) {
            Some((request, Awaits::Newest(since))) => {
                lock(&self.requests).push(One { request, since, until });
                // The news may have come in between.
                mounted.parked.notify_one();
            }
            Some((request, Awaits::Content(hash))) => {
                let fetching = mounted.origin.fetch(here.lack(hash));
                let (waiting, mounted) = (self.clone(), mounted.clone());
                let fetched = async move {
                    match fetching.await {
                        Ok(fetched) => {
                            here.add(fetched);
                            waiting.answer_by(&mounted, request, until, wait, here);
                        }
                        Err(error) => request.refuse(mounted.failed(error.into()).error()),
                    }
                };
                // At the end of the mount the reply is dropped, and the request fails with EIO.
                if let Some(tasks) = &*lock(&self.tasks) {
                    tasks.spawn(fetched);
                }
            }
            None => {}
        }
    }

    /// Looks at all requests again.
    fn answer_all(self: &Arc<Self>, mounted: &Arc<Mounted>) {
        let waiting = mem::take(&mut *lock(&self.requests));
        for One { request, since, until } in waiting {
            let is_over = self.is_over.load(SeqCst) || Instant::now() >= until;
            self.answer_by(mounted, request, until, Wait { since: Some(since), is_over }, Here::default());
        }
    }

    /// Has no request wait from now on. The kernel keeps locks for those that do.
    pub(super) fn end(self: &Arc<Self>, mounted: &Arc<Mounted>) {
        self.is_over.store(true, SeqCst);
        if let Some(tasks) = lock(&self.tasks).take() {
            tasks.shutdown_background();
        }
        self.answer_all(mounted);
    }
}
