//! An application's thread that waits for the store reads the socket itself.
//!
//! ```text
//!   the application's thread:  request --> [ lend, wait for socket or wake, receive ]* --> answer, give back
//!   the reactor's threads:                  (not told of this socket in the meantime)
//! ```
//! Any other reader of the answer would have to wake the thread that waits for it, which takes about as long as the
//! network. So the thread has the socket lent to it: the kernel wakes it, and nobody else, when the answer is there.
//! Other messages that arrive in the meantime it handles like the reactor's threads; a timeout or another thread of the
//! application's wakes it from its wait. `docs/decisions/0009-who-reads-a-socket.md` has the figures.

use crate::host::caller::Caller;
use crate::host::link::Link;
use crate::lock::{Lock, Rank};
use crate::threads::adaptive_spin::AdaptiveSpin;
use crate::threads::read_batch::ReadBatch;
use crate::transport::poller::{SocketId, Wakeup};
use crate::transport::signal::Signal;
use rustix::event::Timespec;
use std::io;
use std::slice;
use std::sync::Arc;

/// The means of a thread to read.
#[derive(Debug)]
struct Reader {
    batch: ReadBatch,
    spin: AdaptiveSpin,
}

/// Lets one thread of the application's read at a time.
#[derive(Debug)]
pub(crate) struct Assist {
    link: Arc<Link>,
    socket: SocketId,
    /// The thread that holds it reads.
    reader: Lock<Reader>,
    signal: Signal,
}

impl Assist {
    /// For a link whose socket has this number.
    pub(crate) fn new(link: Arc<Link>, socket: SocketId) -> io::Result<Self> {
        let reader = Lock::new(Rank::OwnReading, Reader { batch: ReadBatch::new(), spin: AdaptiveSpin::new() });
        Ok(Self { link, socket, reader, signal: Signal::new()? })
    }

    /// Waits for the socket. Returns whether to read on.
    fn wait(&self, woken: &dyn Fn() -> bool, spin: &mut AdaptiveSpin) -> bool {
        self.signal.set_waiting(true);
        let go_on = !woken() && !self.link.connection().is_over();
        if go_on && !spin.find(|| self.look(Some(&Timespec::default()))) {
            self.look(None);
            spin.woken();
        }
        self.signal.set_waiting(false);
        go_on
    }

    /// Looks whether something has arrived, or a wake, and waits for that so long. Returns whether there was anything.
    fn look(&self, within: Option<&Timespec>) -> bool {
        let socket = self.link.connection().socket();
        self.signal.wait((self.socket, socket), within, |wakeup| match wakeup {
            Wakeup::Socket(_, readiness) => drop(self.link.told(readiness)),
            // The thread asks next what has woken it.
            Wakeup::Signal | Wakeup::Stop => {}
        })
    }
}

impl Caller for Assist {
    fn read(&self, woken: &dyn Fn() -> bool) {
        let Some(core) = self.link.core().upgrade() else { return };
        let Some(mut reader) = self.reader.try_lock() else { return };
        let socket = self.link.connection().socket();
        socket.lend(true);
        while self.wait(woken, &mut reader.spin) {
            core.lead(reader.batch.give(&core, slice::from_ref(&self.link)));
        }
        socket.lend(false);
    }

    fn wake(&self) {
        self.signal.wake();
    }
}
