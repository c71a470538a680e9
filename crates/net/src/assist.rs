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
use crate::turn::Turn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread looks for its answer before it sleeps: about as long as to sleep and to be woken would take, so
/// that at worst it takes twice as much of the processor, and a fast answer is there at once. It gives way to any other
/// thread meanwhile.
const SPIN: Duration = Duration::from_micros(20);

/// What lets one thread of the application's read at a time.
#[derive(Debug)]
pub(crate) struct Assist {
    connection: Arc<Connection>,
    /// Whoever holds it reads.
    turn: Mutex<Turn>,
    /// Whether a thread waits for the socket, or is about to.
    waiting: AtomicBool,
    kick: OwnedFd,
}

impl Assist {
    pub(crate) fn new(connection: Arc<Connection>) -> io::Result<Self> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { connection, turn: Mutex::new(Turn::new()), waiting: AtomicBool::new(false), kick })
    }

    /// Reads until `woken` says that the thread is waited for elsewhere, or the connection ends. At once if another
    /// thread reads.
    pub(crate) fn run(&self, host: &Host, woken: &dyn Fn() -> bool) {
        let mut turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return,
        };
        self.connection.socket().lend(true);
        while self.wait(woken) {
            if turn.give(host, slice::from_ref(&self.connection)) {
                host.lead();
            }
        }
        self.connection.socket().lend(false);
    }

    /// Waits for the socket. Says whether to read on.
    fn wait(&self, woken: &dyn Fn() -> bool) -> bool {
        // Before the question whether there was a wake: who wakes the thread asks in the other order.
        self.waiting.store(true, SeqCst);
        let go_on = !woken() && !self.connection.is_over();
        if go_on {
            self.poll();
        }
        self.waiting.store(false, SeqCst);
        go_on
    }

    /// Waits until something has arrived, or a kick.
    fn poll(&self) {
        let spun = Instant::now() + SPIN;
        while !self.look(Some(&Timespec::default())) {
            if Instant::now() > spun {
                self.look(None);
                return;
            }
            thread::yield_now();
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
