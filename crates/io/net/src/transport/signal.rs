//! Wakes one thread that waits for one socket.

use crate::transport::poller::{Readiness, SocketId, Wakeup};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Lets other threads wake the one that waits for a socket.
#[derive(Debug)]
pub(crate) struct Signal {
    event: OwnedFd,
    /// Whether a thread waits, or is about to.
    waiting: AtomicBool,
}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, waiting: AtomicBool::new(false) })
    }

    /// The caller is about to wait, or has waited. It begins before it asks whether there is something to wait for: a
    /// thread that wakes it does these two in the other order.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, SeqCst);
    }

    /// Wakes the thread that waits, if one does.
    pub(crate) fn wake(&self) {
        if self.waiting.load(SeqCst) {
            // The write cannot fail before there were 2^64 of them in one wait.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Waits for the socket or a wake, for ever or so long; calls `wakeup` with each that there is, and says whether
    /// there was any. A wake is taken by that.
    pub(crate) fn wait(
        &self,
        (id, socket): (SocketId, impl AsFd),
        within: Option<&Timespec>,
        mut wakeup: impl FnMut(Wakeup),
    ) -> bool {
        let mut fds = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&self.event, PollFlags::IN)];
        // An interrupted wait has found nothing.
        let any = poll(&mut fds, within).is_ok_and(|events| events > 0);
        if any {
            let [arrived, woken] = fds.map(|fd| fd.revents());
            if !arrived.is_empty() {
                wakeup(Wakeup::Socket(id, Readiness { readable: true, ..Readiness::default() }));
            }
            if !woken.is_empty() {
                let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
                wakeup(Wakeup::Signal);
            }
        }
        any
    }
}
