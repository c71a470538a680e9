//! A client as its connection knows it: its socket, whether it is there, and the changes that are being made for it.
//!
//! ```text
//!   request: begin_change --refused when the end was noticed--> takes effect --> end_change
//!   end noticed by: a receive, a request that has waited, a write that fails, a newer client's handshake
//! ```
//! 1. A request takes effect between [`Presence::begin_change`] and [`Presence::end_change`]. No change begins once the
//!    end was noticed.
//! 2. Before a handshake completes, the ends of all other clients that have hung up are noticed, and
//!    [`Presence::settle`] waits for their changes under way. So their requests have taken effect by then, or never will.
//! 3. The end is that of the socket, which was closed or reset. Over TCP it arrives behind the bytes that were sent
//!    before, and if a host vanishes it does not arrive.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The bit beside the count of changes: no more may begin.
const ENDED: u32 = 1 << 31;

/// A client's side of a connection.
#[derive(Debug)]
pub(super) struct Presence {
    socket: OwnedFd,
    /// Changes under way, and [`ENDED`].
    changes: AtomicU32,
    /// This server reads nothing more of it.
    is_shut: AtomicBool,
    /// For those who wait for the last change.
    settling: Mutex<()>,
    settled: Condvar,
}

impl Presence {
    pub(super) fn new(socket: OwnedFd) -> Self {
        let (changes, is_shut) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { socket, changes, is_shut, settling: Mutex::new(()), settled: Condvar::new() }
    }

    /// Whether the end was noticed.
    pub(super) fn is_gone(&self) -> bool {
        self.changes.load(SeqCst) & ENDED != 0
    }

    /// Asks the system whether the client has hung up, whatever it has sent before.
    pub(super) fn look(&self) -> bool {
        if !self.is_gone() && self.has_hung_up() {
            self.end();
        }
        self.is_gone()
    }

    fn has_hung_up(&self) -> bool {
        let closed = PollFlags::HUP | PollFlags::ERR;
        // A socket that this server has shut for reading looks as one that its client has shut for writing.
        let ends = if self.is_shut.load(SeqCst) { closed } else { closed | PollFlags::RDHUP };
        let mut socket = [PollFd::new(&self.socket, ends)];
        poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|told| told > 0)
    }

    /// Notes the end: no change begins from now on.
    pub(super) fn end(&self) {
        self.changes.fetch_or(ENDED, SeqCst);
    }

    /// Begins a change, unless the end was noticed.
    pub(super) fn begin_change(&self) -> bool {
        let may_begin = self.changes.fetch_add(1, SeqCst) & ENDED == 0;
        if !may_begin {
            self.end_change();
        }
        may_begin
    }

    /// A change has taken effect.
    pub(super) fn end_change(&self) {
        if self.changes.fetch_sub(1, SeqCst) == ENDED | 1 {
            drop(self.settling.lock().unwrap_or_else(PoisonError::into_inner));
            self.settled.notify_all();
        }
    }

    /// Waits for the changes under way of a client whose end was noticed. Returns whether there are none.
    pub(super) fn settle(&self, until: Instant) -> bool {
        let mut settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        while self.changes.load(SeqCst) != ENDED {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            settling = self.settled.wait_timeout(settling, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Receives nothing more.
    pub(super) fn stop_reading(&self) {
        self.is_shut.store(true, SeqCst);
        // It may be gone already.
        let _ = shutdown(&self.socket, Shutdown::Read);
    }

    /// Shuts the socket both ways, which wakes threads that wait for it.
    pub(super) fn hang_up(&self) {
        self.end();
        // It may be gone already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Presence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn no_change_begins_after_the_end_and_those_under_way_are_waited_for() {
        let (server, client) = UnixStream::pair().unwrap();
        let presence = Presence::new(server.into());
        assert!(presence.begin_change() && !presence.look());
        drop(client);
        assert!(presence.look() && !presence.begin_change());
        assert!(!presence.settle(Instant::now()), "a change is under way");
        thread::scope(|scope| {
            let settled = scope.spawn(|| presence.settle(Instant::now() + Duration::from_secs(30)));
            presence.end_change();
            assert!(settled.join().unwrap());
        });
    }

    #[test]
    fn a_server_that_stops_reading_is_no_end_of_its_client() {
        let (server, client) = UnixStream::pair().unwrap();
        let presence = Presence::new(server.into());
        presence.stop_reading();
        assert!(!presence.look());
        drop(client);
        assert!(presence.look());
    }
}
