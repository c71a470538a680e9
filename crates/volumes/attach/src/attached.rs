//! A volume that is attached at this host: a local log takes its writes, which go home in the order of their flushes.
//!
//! ```text
//!   request --> state: Owner, DirtyWrites --> log --> durable --> answers        (the thread of the request)
//!                         |     ^                        |
//!              write home |     | home, free             +--> the keeper: what nobody waits for
//!                         v     |
//!                      write-back --> home                                       (a thread of its own)
//! ```
//! The owner machine decides when a request is answered and what goes home ([`machines::Owner`]); here that is done.
//! Everything that it says happens under one short lock, and no file is touched under it.
//!
//! 1. Positions in the log are the owner's sequence numbers: a write is appended under the lock that numbers it.
//! 2. A write that is not written back is found before a clean block or home (`read.rs`). Bytes of home count only if
//!    the block was still not dirty afterwards, and no write-back has ended in the meantime.
//! 3. A record is freed when its write-back is durable at home, never before (**FreeAfterHome**).
//! 4. After a start everything that the log still has goes home as one joined write-back. Some of it may be there
//!    already, with later flush epochs behind it: to write it again one epoch at a time would take home back.
//!
//! | to change | see |
//! |---|---|
//! | what is checked before a volume is attached | `open.rs` |
//! | a volume of a store, which another host may have had | `stored.rs` |
//! | how requests become reads and writes | `device.rs` |
//! | what a read finds where | `read.rs` |
//! | what is read ahead | `ahead.rs` |
//! | what is known of home's runs of data and holes | `runs.rs` |
//! | what is appended, and blocks that are written in part | `write.rs` |
//! | who flushes, and who is answered | `flush.rs` |
//! | how dirty data goes home | `write_back.rs` |
//! | what happens when the cache's device fails | `lost_cache.rs` |
//! | what is remembered of home, and when it went back | `known_home.rs` |
//! | copies at holders, and the registry | `copies.rs` |
//! | what a scrub compares | `scrub.rs`, clean blocks with home; `compare.rs`, what is dirty with holders |
//! | how a damaged block is restored | `repair.rs` |
//! | what home learns from the registry | `tell.rs` |
//! | what an operator wants done: another size, everything home | `operate.rs` |
//! | what an operator is told | `status.rs` |

mod ahead;
mod attachment;
#[cfg(test)]
mod between;
mod compare;
mod config;
mod copies;
#[cfg(test)]
mod crashes;
mod device;
mod error;
mod flush;
mod known_home;
mod lost_cache;
mod open;
mod operate;
mod read;
mod repair;
mod requests;
#[cfg(test)]
mod rollback;
mod runs;
mod scrub;
mod status;
mod stored;
mod tell;
#[cfg(test)]
mod tests;
mod write;
mod write_back;

use crate::cache::{Clean, CleanFiles, DirtyWrites, Writes};
use crate::clock::Clock;
use crate::home::Home;
use ahead::Ahead;
use copies::{Asked, Sessions};
use log::Log;
use lost_cache::LostCache;
use machines::{Effect, Owner, WriteBack};
use requests::Requests;
use runs::KnownRuns;
use status::Counts;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use types::Time;
use vfs::Lock;

pub use config::{AttachConfig, CacheFailure, LOG_BYTES_MAX, LOG_BYTES_MIN, Progress};
pub use copies::CopiesConfig;
pub use error::AttachError;
pub(crate) use open::{Marker, lock_cache};
pub use operate::OperateError;
pub use status::{CopiesAt, Reads, Status};
pub use stored::StoredVolume;
pub(crate) use stored::cache_of;

/// An attached volume. When it is dropped without [`Attached::detach`] it stops at once: its log has what is not
/// written back.
pub struct Attached {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The state that the threads of an attached volume share.
struct Core {
    log: Log<Writes>,
    home: Home,
    clean: CleanFiles,
    state: Mutex<State>,
    /// There is room for writes that found none, or nothing waits any more.
    room: Condvar,
    /// There is something for the keeper.
    keep: Condvar,
    /// There is something to write home.
    write_back: Condvar,
    /// Everything is written back, or it never will be.
    drained: Condvar,
    clock: Clock,
    /// The size of the volume. Reads, and the checks of requests, go by it without the lock.
    size: AtomicU64,
    /// Another size is being given to it, or everything is brought home, for an operator: one at a time.
    operated: Mutex<()>,
    /// Whether a write is answered when it is in the log.
    waits_for_log: bool,
    /// The write with sequence 0 would have this position: those before it are of other epochs.
    base: u64,
    /// When the device of the cache fails.
    cache_failure: CacheFailure,
    /// Its copies, if it has any.
    copies: Option<CopiesConfig>,
    /// There is something to do for sessions with holders.
    tasks: Condvar,
    /// There is something to ask of the registry.
    changes: Condvar,
    /// It is over with telling home of the registry.
    tells: Condvar,
    /// Something is read ahead, and has come.
    ahead: Condvar,
    arrived: Condvar,
    /// The cache is locked until it is detached.
    cache_lock: Mutex<Option<Lock>>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and most are short-lived")]
struct State {
    owner: Owner,
    dirty: DirtyWrites,
    clean: Clean,
    requests: Requests,
    sessions: Sessions,
    ahead: Ahead,
    /// The next write-back.
    to_home: Option<WriteBack>,
    /// Everything through this position was found in the log by a start.
    recovered: u64,
    /// How many write-backs have ended.
    write_backs: u64,
    /// The runs that home has told of.
    runs: KnownRuns,
    /// The bytes of appended writes that no flush has taken, and when the first of them came.
    unflushed: Option<(u64, Instant)>,
    /// A flush is worth its while although no request waits for it.
    wants_flush: bool,
    /// The blocks that were read and written.
    counts: Counts,
    /// How often there was room again.
    rooms: u64,
    /// The last error of home, while it lasts.
    home_error: Option<String>,
    /// The last error of the registry, while it lasts.
    registry_error: Option<String>,
    /// The last error of a read, and when that was.
    read_error: Option<(String, Time)>,
    /// Why clean blocks are not cached, while that lasts.
    clean_error: Option<String>,
    /// The cache takes nothing any more.
    lost_cache: Option<LostCache>,
    /// Home is not as it was left.
    has_home_gone_back: bool,
    /// Why nothing works any more.
    failed: Option<String>,
    /// A write was appended that the keeper is to flush.
    is_for_keeper: bool,
    /// No write is taken any more.
    is_detaching: bool,
    is_detached: bool,
    /// The registry knows that it is nobody's.
    is_released: bool,
    /// Another host has it.
    is_ended: bool,
    is_closing: bool,
}

impl Attached {
    /// Writes everything home and ends: requests are refused from then on.
    ///
    /// # Errors
    /// Why something is not written back. The log has it, and the next attachment continues.
    pub fn detach(&self) -> Result<(), String> {
        self.finish()?;
        self.release()
    }

    /// Writes everything home; requests are refused from then on. Home and cache are still this process's.
    ///
    /// # Errors
    /// Why something is not written back. The log has it, and the next attachment continues.
    pub fn finish(&self) -> Result<(), String> {
        if std::mem::replace(&mut self.core.state().is_detaching, true) && self.core.state().is_detached {
            return Ok(());
        }
        // Nobody waits for the lease any more.
        self.core.room.notify_all();
        self.core.drain()?;
        self.end_threads();
        Ok(())
    }

    /// Lets another process have home and cache, when everything is written back.
    ///
    /// # Errors
    /// Something is not written back, or a file does not take the word.
    pub fn release(&self) -> Result<(), String> {
        self.core.close()
    }

    /// Begins to write everything home; a detach is quick then.
    pub fn drain(&self) {
        let mut state = self.core.state();
        let now = self.core.now();
        state.owner.drain(now);
        self.core.carry_out(state, None);
    }

    fn end_threads(&self) {
        self.core.state().is_closing = true;
        self.core.wake_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // One that panicked has said so in `failed`.
            let _ = thread.join();
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A thread may wait for a home that does not answer.
        self.core.state().is_closing = true;
        self.core.home.close();
        self.end_threads();
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Nothing works any more, and everybody who waits is told.
    fn fail(&self, why: String) {
        self.log.fail();
        let mut state = self.state();
        state.failed.get_or_insert(why);
        state.owner.stop();
        self.carry_out(state, None);
        self.wake_all();
    }

    /// Everybody who waits looks again.
    fn wake_all(&self) {
        let waited = [&self.keep, &self.write_back, &self.room, &self.drained, &self.tasks, &self.changes];
        waited.into_iter().chain([&self.ahead, &self.arrived, &self.tells]).for_each(Condvar::notify_all);
    }

    fn ask_registry(&self, state: &mut State, asked: Asked) {
        state.sessions.ask(asked);
        self.changes.notify_one();
    }

    /// Does what the owner wants done. Answers leave without the lock; those to the connection whose thread this is
    /// leave when it returns from its submission, and those to others at once.
    fn carry_out(&self, mut state: MutexGuard<'_, State>, own: Option<&requests::Own<'_>>) {
        let mut says = false;
        while let Some(effect) = state.owner.poll_effect() {
            says |= matches!(effect, Effect::Send(..) | Effect::Reconnect(..));
            match effect {
                Effect::Answer(request, outcome) => state.requests.finish(request, outcome.map_err(requests::errno)),
                Effect::WriteHome(back) => {
                    state.to_home = Some(back);
                    self.write_back.notify_one();
                }
                Effect::Room => {
                    state.rooms += 1;
                    self.room.notify_all();
                }
                Effect::Send(partition, message) => state.sessions.send(partition, message),
                Effect::Connect(partition) => state.sessions.connect(partition),
                Effect::Disconnect(partition) => state.sessions.disconnect(partition),
                Effect::Reconnect(partition, reason) => state.sessions.reconnect(partition, reason),
                Effect::Read(read) => state.sessions.read(read),
                Effect::Change(change) => self.ask_registry(&mut state, Asked::Change(change)),
                Effect::Restore(restore) => self.ask_registry(&mut state, Asked::Restore(restore)),
                Effect::AskHome => self.ask_registry(&mut state, Asked::Home),
                Effect::Ended(epoch) => {
                    let why = || format!("the volume is another host's since epoch {} has begun", epoch.0);
                    state.failed.get_or_insert_with(why);
                    state.is_ended = true;
                    self.wake_all();
                }
                Effect::Detached => {
                    state.is_released = true;
                    self.drained.notify_all();
                }
            }
        }
        if state.sessions.has_tasks() {
            self.tasks.notify_one();
        }
        if state.owner.is_clean() {
            self.drained.notify_all();
        }
        let answered = state.requests.take_answered();
        // A batch's copies leave together, before its thread flushes: a holder then makes them durable together, too.
        // And so do those of many batches that no request waits for, until they are much.
        let leaves = own.is_none() && says || state.sessions.is_much();
        let pushed = if leaves { state.sessions.take_pushed() } else { Vec::new() };
        drop(state);
        requests::deliver(answered, own);
        if let (false, Some(own)) = (pushed.is_empty(), own) {
            // Nobody's answer waits for the line.
            own.replies.send();
        }
        copies::settle(pushed);
    }
}
