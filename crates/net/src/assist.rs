//! An application's thread that waits for the store reads the socket itself.
//!
//! ```text
//!   the application's thread:  request --> [ lend, wait for socket or kick, receive ]* --> answer, give back
//!   the reactor's threads:                  (not told of this socket meanwhile)
//! ```
//! Whoever else read the answer would have to wake the thread that waits for it, which takes about as long as the
//! network. So the thread has the socket lent to it: the kernel wakes it, and nobody else, when the answer is there.
//! What else arrives meanwhile it handles like the reactor's threads; what wakes it from elsewhere, a timeout, another
//! thread of the application's, kicks it out of its wait. `docs/decisions/0009-who-reads-a-socket.md` has the figures.

use crate::connection::Connection;
use crate::host::Host;
use crate::look::Look;
use crate::turn::Turn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// What a thread needs to read.
#[derive(Debug)]
struct Reader {
    turn: Turn,
    look: Look,
}

/// What lets one thread of the application's read at a time.
#[derive(Debug)]
pub(crate) struct Assist {
    connection: Arc<Connection>,
    /// Whoever holds it reads.
    reader: Mutex<Reader>,
    /// Whether a thread waits for the socket, or is about to.
    waiting: AtomicBool,
    kick: OwnedFd,
}

impl Assist {
    pub(crate) fn new(connection: Arc<Connection>) -> io::Result<Self> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let reader = Mutex::new(Reader { turn: Turn::new(), look: Look::new() });
        Ok(Self { connection, reader, waiting: AtomicBool::new(false), kick })
    }

    /// Reads until `woken` says that the thread is waited for elsewhere, or the connection ends. At once if another
    /// thread reads.
    pub(crate) fn run(&self, host: &Host, woken: &dyn Fn() -> bool) {
        let mut reader = match self.reader.try_lock() {
            Ok(reader) => reader,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return,
        };
        self.connection.socket().lend(true);
        while self.wait(woken, &mut reader.look) {
            if reader.turn.give(host, slice::from_ref(&self.connection)) {
                host.lead();
            }
        }
        self.connection.socket().lend(false);
    }

    /// Waits for the socket. Says whether to read on.
    fn wait(&self, woken: &dyn Fn() -> bool, look: &mut Look) -> bool {
        // Before the question whether there was a wake: who wakes the thread asks in the other order.
        self.waiting.store(true, SeqCst);
        let go_on = !woken() && !self.connection.is_over();
        if go_on {
            self.poll(look);
        }
        self.waiting.store(false, SeqCst);
        go_on
    }

    /// Waits until something has arrived, or a kick.
    fn poll(&self, look: &mut Look) {
        if !look.find(|| self.look(Some(&Timespec::default()))) {
            self.look(None);
            look.woken();
        }
    }

    /// Looks whether something has arrived, or a kick, and waits for that so long. Says whether there was anything.
    fn look(&self, within: Option<&Timespec>) -> bool {
        let mut fds = [PollFd::new(self.connection.socket(), PollFlags::IN), PollFd::new(&self.kick, PollFlags::IN)];
        // An interrupted wait has found nothing.
        let any = poll(&mut fds, within).is_ok_and(|events| events > 0);
        if any {
            let [socket, kick] = fds.map(|fd| fd.revents());
            if !socket.is_empty() {
                self.connection.has_arrived();
            }
            if !kick.is_empty() {
                let _ = rustix::io::read(&self.kick, &mut [0_u8; 8]);
            }
        }
        any
    }

    /// Something was woken, or has ended, that the reading thread may be waiting for.
    pub(crate) fn kick(&self) {
        if self.waiting.load(SeqCst) {
            // It cannot fail before it has been written 2^64 times in one wait.
            let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
        }
    }
}
