//! The processes that this one has started and that run. A person who interrupts a measurement waits for none of them,
//! and wants none left.

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to end by the signal that it ends by, before it is killed.
const END_WITHIN: Duration = Duration::from_millis(500);

/// Those that were not waited for, each with the signal that it ends by. While this is locked, no number of them
/// becomes another process's.
static RUNNING: Mutex<Children> = Mutex::new(Children { signals: BTreeMap::new(), is_over: false });

struct Children {
    signals: BTreeMap<u32, Signal>,
    /// No more should be started.
    is_over: bool,
}

fn running() -> MutexGuard<'static, Children> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is killed when this is dropped, or by [`end_processes`].
#[derive(Debug)]
pub(crate) struct Started(Child);

impl Started {
    /// Starts it. Where it is not to be killed, it ends by this signal in good order.
    pub(crate) fn spawn(command: &mut Command, ends_by: Signal) -> io::Result<Self> {
        let mut running = running();
        if running.is_over {
            return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        let child = command.spawn()?;
        running.signals.insert(child.id(), ends_by);
        Ok(Self(child))
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.0.stdin.take());
        // It is left there until nobody can end another one in its place. An error means that it was waited for before.
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(&self.0)), dead));
        let mut running = running();
        running.signals.remove(&self.0.id());
        self.0.wait()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let running = running();
        if !running.signals.contains_key(&self.0.id()) {
            return Err(io::Error::new(ErrorKind::NotFound, "it has ended before"));
        }
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.signal(Signal::KILL);
        let _ = self.wait();
    }
}

/// Runs a program to its end, and gives what it has said.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    fn all(pipe: Option<impl Read>) -> Vec<u8> {
        let mut said = Vec::new();
        // One whose pipe breaks has said what is there.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut said));
        said
    }
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Started::spawn(piped, Signal::KILL)?;
    let (words, errors) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let errors = scope.spawn(|| all(errors));
        (all(words), errors.join().unwrap_or_default())
    });
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// Ends all processes that measurements have started in this one, and lets no more begin: what is still measured fails.
pub fn end_processes() {
    let mut running = running();
    running.is_over = true;
    let begun = Instant::now();
    running.signals.iter().for_each(|(&id, &signal)| end(id, signal));
    while !running.signals.is_empty() && begun.elapsed() < END_WITHIN {
        thread::sleep(Duration::from_millis(5));
        running.signals.retain(|&id, _| runs(id));
    }
    running.signals.keys().for_each(|&id| end(id, Signal::KILL));
}

/// Ends a process, and those that it has started: a database that is being made has one.
fn end(id: u32, signal: Signal) {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?));
    // One that has just ended has ended.
    for process in pid(id).into_iter().chain(children) {
        let _ = kill_process(process, signal);
    }
}

fn runs(id: u32) -> bool {
    let Some(pid) = pid(id) else { return false };
    matches!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(id.cast_signed())
}
