//! The threads of a mount that follow its member.

use super::views::Mounted;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often a thread looks without news: for a revision of the own store.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Threads {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

/// The event beside news of the member that a thread is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Woken {
    /// A session has been given a newer revision.
    Switched,
    /// A request waits.
    Parked,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self { stop: watch::Sender::new(false), running: Vec::new() }
    }

    /// Starts a thread that works at news of the member, at an event, and after the time that the work returns.
    pub(super) fn follow(
        &mut self,
        name: &str,
        mounted: &Arc<Mounted>,
        woken: Woken,
        mut work: impl FnMut() -> Duration + Send + 'static,
    ) -> io::Result<()> {
        let (mounted, mut stopped) = (mounted.clone(), self.stop.subscribe());
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let run = move || {
            let event = match woken {
                Woken::Switched => &mounted.switched,
                Woken::Parked => &mounted.parked,
            };
            while !*stopped.borrow() {
                let within = work();
                runtime.block_on(async {
                    tokio::select! {
                        _ = timeout(within, mounted.origin.news()) => {}
                        () = event.notified() => {}
                        _ = stopped.changed() => {}
                    }
                });
            }
        };
        self.running.push(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.running.drain(..) {
            // A panic has no reader any longer.
            let _ = thread.join();
        }
    }
}
