//! A member of the crew: a client in a process of its own.

use super::words::{Order, Word};
use crate::Result;
use crate::job::JobName;
use clap::ValueEnum;
use fixtures::{Process, Program, Signal};
use std::net::SocketAddr;
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
    /// The store: one or several addresses.
    pub(crate) store: String,
}

/// A running member. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Member {
    process: Process,
    /// It may end, nothing is wrong with that.
    may_end: Arc<AtomicBool>,
}

impl Member {
    /// Starts one. `hear` is called with each of its words, and with why it has ended, if that was not wanted.
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
            command.args(["--group", group, "--eligible", &listen.to_string(), "--store", store]);
        }
        let process = Process::spawn(command, "a client")?;
        let may_end = Arc::<AtomicBool>::default();
        let (may, stdout, stderr) = (Arc::clone(&may_end), process.stdout(), process.stderr());
        std::thread::spawn(move || {
            // A line that it was writing when it was killed is left out.
            while let Some(line) = stdout.next().filter(|line| line.ends_with('\n')) {
                let word = serde_json::from_str(&line);
                hear(word.map_err(|error| format!("a client said `{}`: {error}", line.trim())));
            }
            let words = stderr.rest();
            if !may.load(SeqCst) {
                hear(Err(format!("client {number} has ended: {}", words.trim())));
            }
        });
        Ok(Self { process, may_end })
    }

    /// Tells it what to do.
    pub(super) fn tell(&mut self, order: &Order) -> Result {
        let line = serde_json::to_string(order)? + "\n";
        self.process.tell(line.as_bytes()).map_err(|error| format!("a client does not listen: {error}").into())
    }

    /// Stops it where it is, or lets it continue.
    pub(super) fn signal(&self, signal: Signal) -> Result {
        self.process.signal(signal)
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> Result {
        self.may_end.store(true, SeqCst);
        self.process.kill()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.kill();
    }
}
