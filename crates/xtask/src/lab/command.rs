//! Runs the command, and lets it be the one that signals are for.
//!
//! Ctrl-C and its kin reach the whole foreground group: the command has its signal, and this process only waits for
//! what the command makes of it, then clears up. SIGTERM is sent to one process, this one, so it is passed on.

use crate::Result;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::low_level::{pipe, unregister};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Whether a signal ends this process, as if nobody had asked for it. A handler stays for the life of the process, and
/// a lab may be only a step of it.
static SIGNALS_END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn signals_end() -> io::Result<&'static AtomicBool> {
    if let Some(end) = SIGNALS_END.get() {
        return Ok(end);
    }
    let end = Arc::default();
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        register_conditional_default(signal, Arc::clone(&end))?;
    }
    Ok(SIGNALS_END.get_or_init(|| end))
}

/// Runs a command, with this process's standard streams, until its end.
pub(super) fn run(words: &[String]) -> Result<ExitStatus> {
    let (program, arguments) = words.split_first().ok_or("lab: there is no command")?;
    let signals = Signals::hold().map_err(|error| format!("lab: cannot watch for signals: {error}"))?;
    let child = Command::new(program).args(arguments).spawn();
    let mut child = child.map_err(|error| format!("lab: cannot start `{program}`: {error}"))?;
    signals.pass_on_until_end(&mut child).map_err(|error| format!("lab: cannot wait for `{program}`: {error}"))
}

/// While it lives no signal ends this process.
struct Signals {
    /// Has a byte for each SIGTERM.
    terminations: UnixStream,
    id: signal_hook::SigId,
}

impl Signals {
    fn hold() -> io::Result<Self> {
        let (terminations, writer) = UnixStream::pair()?;
        let id = pipe::register(SIGTERM, writer)?;
        let signals = Self { terminations, id };
        signals_end()?.store(false, SeqCst);
        Ok(signals)
    }

    fn pass_on_until_end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        // By this file, and not by its id, the child is meant and nobody who got the id after it.
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        loop {
            let mut sources = [PollFd::new(&process, PollFlags::IN), PollFd::new(&self.terminations, PollFlags::IN)];
            match poll(&mut sources, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [ended, terminated] = sources.map(|source| !source.revents().is_empty());
            if ended {
                return child.wait();
            }
            if terminated {
                (&self.terminations).read_exact(&mut [0])?;
                // A process that has just ended needs no signal.
                let _ = pidfd_send_signal(&process, Signal::TERM);
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        unregister(self.id);
        if let Some(end) = SIGNALS_END.get() {
            end.store(true, SeqCst);
        }
    }
}
