//! A member of the crew: a client in a process of its own.

use super::words::{Order, Word};
use crate::job::JobName;
use crate::{Error, Result};
use bench::Program;
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// How a member is started.
#[derive(Clone, Debug)]
pub(crate) struct MemberOptions {
    /// The program, and the words that run it at its place.
    pub(crate) program: Program,
    /// The job that it works on.
    pub(crate) job: JobName,
    /// The servers that it connects to: one or several addresses.
    pub(crate) server: String,
    /// How it takes over as its group's redirector, if it may.
    pub(crate) eligible: Option<Eligible>,
    /// More words for the command line.
    pub(crate) arguments: Vec<String>,
}

/// How a member takes over as its group's redirector.
#[derive(Clone, Debug)]
pub(crate) struct Eligible {
    /// The group's name.
    pub(crate) group: String,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// The store's address.
    pub(crate) store: SocketAddr,
}

/// A running member. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Member {
    child: Child,
    stdin: Option<ChildStdin>,
    /// It may end, nothing is wrong with that.
    may_end: Arc<AtomicBool>,
}

impl Member {
    /// Starts one. `hear` is called with what it says, and with why it has ended, if that was not wanted.
    pub(super) fn start(
        number: u32,
        options: &MemberOptions,
        mut hear: impl FnMut(std::result::Result<Word, String>) + Send + 'static,
    ) -> Result<Self> {
        let mut command = options.program.command();
        let job = options.job.to_possible_value().expect("no job is hidden");
        command.args(["member", "--job", job.get_name(), "--number", &number.to_string()]);
        command.args(["--server", &options.server]).args(&options.arguments);
        if let Some(Eligible { group, listen, store }) = &options.eligible {
            command.args(["--group", group, "--eligible", &listen.to_string(), "--store", &store.to_string()]);
        }
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, mut stderr) = stdout.zip(stderr).ok_or("the output of a member was not captured")?;
        let may_end = Arc::<AtomicBool>::default();
        let (may, first) = (Arc::clone(&may_end), format!("client {number} has ended"));
        std::thread::spawn(move || {
            listen(stdout, &mut hear);
            let mut words = String::new();
            // The end of the process is known without its last words.
            let _ = stderr.read_to_string(&mut words);
            if !may.load(SeqCst) {
                hear(Err(format!("{first}: {}", words.trim())));
            }
        });
        Ok(Self { child, stdin, may_end })
    }

    /// Tells it what to do.
    pub(super) fn tell(&mut self, order: &Order) -> Result {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        let stdin = self.stdin.as_mut().ok_or("a client that has been dismissed cannot be told anything")?;
        stdin.write_all(line.as_bytes()).map_err(|error| Error::from(format!("a client does not listen: {error}")))
    }

    /// Stops it where it is, or lets it continue.
    pub(super) fn signal(&self, signal: Signal) -> Result {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> Result {
        self.may_end.store(true, SeqCst);
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.kill();
    }
}

/// Hears what a member says until it has ended. A line that it was writing when it was killed is left out.
fn listen(stdout: ChildStdout, hear: &mut impl FnMut(std::result::Result<Word, String>)) {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
        hear(serde_json::from_str(&line).map_err(|error| format!("a client said `{}`: {error}", line.trim())));
        line.clear();
    }
}
