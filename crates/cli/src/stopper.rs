//! The ways to end a process before it is done: one that runs until it is told to stop, and one that works in batches.

use crate::Result;
use machine::RoleId;
use net::Host;
use rustix::process::setsid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The first SIGTERM or Ctrl-C closes the host's only machine; a second ends the process, which loses nothing either.
pub(crate) fn close_on_signal(host: &Arc<Host>) -> Result {
    let host = Arc::downgrade(host);
    when_told(move || close_host(&host))
}

/// The first SIGTERM or Ctrl-C does this; a second ends the process.
pub(crate) fn when_told(stop: impl FnOnce() + Send + 'static) -> Result {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            stop();
        }
        if let Some(signal) = signals.next() {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// SIGTERM, SIGHUP or Ctrl-C does this, and ends the process.
pub(crate) fn end_on_signal(clean_up: impl FnOnce() + Send + 'static) -> Result {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            clean_up();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Makes SIGHUP harmless. The clients of a server have not closed a terminal, and a service manager that sends the
/// signal wants settings to be read again. A command with something to read adds [`when_hung_up`].
pub(crate) fn outlive_hang_up() -> Result {
    signal_hook::flag::register(SIGHUP, Arc::default())?;
    Ok(())
}

/// Does this at each SIGHUP, which does not end the process any more.
pub(crate) fn when_hung_up(mut reload: impl FnMut() + Send + 'static) -> Result {
    let mut signals = Signals::new([SIGHUP])?;
    std::thread::spawn(move || signals.forever().for_each(|_| reload()));
    Ok(())
}

/// The process that started us and holds the other end of our standard input has gone.
pub(crate) fn close_with_stdin(host: &Arc<Host>) {
    let host = Arc::downgrade(host);
    when_stdin_closes(move || close_host(&host));
}

/// Does this when the other end of our standard input has gone: this process ends with the program that started it. It
/// has a session of its own from now on, as a service has. A terminal's signals are for that program, which ends this
/// one in its own time; and a system that shares its processors among sessions (`sched_autogroup`) does not count the
/// two as one.
pub(crate) fn when_stdin_closes(stop: impl FnOnce() + Send + 'static) {
    // The leader of a process group, which a shell has started by itself, stays where it is.
    let _ = setsid();
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        stop();
    });
}

fn close_host(host: &Weak<Host>) {
    if let Some(host) = host.upgrade() {
        host.close(RoleId::ONLY);
    }
}

/// Whether the program that started us has the system ignore this signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// SIGTERM or Ctrl-C, for a command that works in batches: it ends behind the one that it is at, and says how far it
/// came. A second signal ends the process at once, which loses no batch that is done.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    come: Arc<AtomicBool>,
    /// When it was seen first.
    since: Arc<OnceLock<Instant>>,
}

/// How often a thread that waits for something else looks whether it has come.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Interrupt {
    /// From now on.
    pub(crate) fn watch() -> Result<Self> {
        let come = Arc::new(AtomicBool::new(false));
        for signal in Self::signals() {
            // In this order: the first signal finds the flag down.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, come.clone())?;
            signal_hook::flag::register(signal, come.clone())?;
        }
        Ok(Self::of(come))
    }

    /// The same for a command that has much to undo: further signals do not end it.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the commands of the lab"))]
    pub(crate) fn watch_patiently() -> Result<Self> {
        let come = Arc::new(AtomicBool::new(false));
        for signal in Self::signals() {
            signal_hook::flag::register(signal, come.clone())?;
        }
        Ok(Self::of(come))
    }

    fn signals() -> impl Iterator<Item = i32> {
        // Its terminal may be closed under it; but `nohup` says that this is no reason.
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        [SIGTERM, SIGINT].into_iter().chain(hang_up)
    }

    fn of(come: Arc<AtomicBool>) -> Self {
        Self { come, since: Arc::default() }
    }

    /// Whether it has come.
    pub(crate) fn has_come(&self) -> bool {
        self.come.load(SeqCst)
    }

    /// Whether it was seen to have come so long ago.
    pub(crate) fn has_come_for(&self, time: Duration) -> bool {
        self.has_come() && self.since.get_or_init(Instant::now).elapsed() >= time
    }

    /// A flag that is up when it has come.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.come.clone()
    }

    /// Returns the outcome of a call, unless that takes longer than this when it has come: then the call is left alone,
    /// with its thread, and whatever becomes of it.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        time: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, outcome) = channel();
        // If it is left alone nobody hears it any more.
        std::thread::Builder::new().spawn(move || drop(sender.send(call())))?;
        loop {
            match outcome.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) if self.has_come_for(time) => return Err("interrupted".into()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("a thread panicked: please report it".into()),
            }
        }
    }
}

/// Ends all processes when the interrupt has come: calls that wait for one of them fail then, instead of waiting on.
#[cfg(feature = "lab")]
pub(crate) fn end_processes_on(interrupt: Interrupt) {
    std::thread::spawn(move || {
        while !interrupt.has_come() {
            std::thread::sleep(LOOK_EVERY);
        }
        fixtures::end_processes();
    });
}
