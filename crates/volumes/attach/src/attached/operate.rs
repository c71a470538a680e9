//! The things that an operator wants done with a volume while it is attached: everything home, and another size.
//!
//! A volume that becomes larger does so at home first: the registry never says more than home has. One that becomes
//! smaller is trimmed behind its new end (**TrimTail**), the registry is told, the trim goes home, and home is cut
//! last: what is interrupted in between leaves a home that is longer than its volume, with zeros behind the end, which
//! harms nobody.

use super::requests::errno;
use super::{Attached, Core, State};
use crate::cache::Write;
use crate::extents::BLOCK;
use crate::far::FarError;
use crate::home::{HomeError, is_size, shrinks};
use machines::{Declined, RequestId, messages::holder::Record};
use nbd::{Answer, Errno, Form, Replies, Ticket};
use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// How often to look whether anybody still wants what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why something was not done that an operator wanted.
#[derive(Debug)]
pub enum OperateError {
    /// No volume can have this size.
    Size(u64),
    /// Something else is under way that an operator wants.
    Busy,
    /// The volume does not take it.
    Declined(Declined),
    /// The volume has failed, or was detached in the meantime.
    Ended(String),
    /// Its home is in a store, where snapshots are made.
    Elsewhere,
    /// It has this many bytes, and nobody said that it may lose some.
    Shrinks(u64),
    /// Nobody wants it any more.
    GivenUp,
    /// Dirty data is not written back, for this reason.
    Stuck(String),
    /// Home does not do it.
    Home(HomeError),
}

impl fmt::Display for OperateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => {
                write!(f, "a volume cannot have {size} bytes: expected a whole number of blocks of {BLOCK} bytes")
            }
            Self::Busy => f.write_str("another command is under way at this volume: wait for its end"),
            Self::Declined(Declined::LeaseOver) => {
                f.write_str("the volume's store is not reached, so it takes no change now: try again when it is")
            }
            Self::Declined(Declined::Detached) => f.write_str("the volume is being detached"),
            Self::Declined(declined) => write!(f, "the volume does not take that now ({})", declined.name()),
            Self::Ended(why) => write!(f, "the volume has ended in the meantime: {why}"),
            Self::Elsewhere => f.write_str("its home is in a store: give --store, and the name of the snapshot"),
            Self::Shrinks(size) => f.write_str(&shrinks(*size)),
            Self::Stuck(why) => write!(f, "dirty data cannot be written back: {why}"),
            Self::GivenUp => f.write_str("it was given up while it waited for home"),
            Self::Home(error) => write!(f, "home: {error}"),
        }
    }
}

impl std::error::Error for OperateError {}

impl From<HomeError> for OperateError {
    fn from(error: HomeError) -> Self {
        if let HomeError::Far(FarError::GivenUp) = error { Self::GivenUp } else { Self::Home(error) }
    }
}

/// Takes the answer to a request that is of no client.
struct Asked(Sender<Result<(), Errno>>);

impl Replies for Asked {
    fn done(&self, _: Ticket, outcome: Result<Answer, Errno>) {
        // The one who has asked waits for it.
        let _ = self.0.send(outcome.map(drop));
    }

    fn send(&self) {}

    fn stalls(&self) {}
}

impl Attached {
    /// Which volume it is, for those who may mean another one: the number of one of a store, the path of the home of
    /// one host.
    pub fn identity(&self) -> String {
        self.core.home.identity()
    }

    /// Everything that was written before is home when this returns, for as long as that takes, or until it is given
    /// up.
    ///
    /// # Errors
    /// Why it never will be.
    pub fn bring_home(&self, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        let _one = self.core.operated.try_lock().map_err(|_| OperateError::Busy)?;
        self.core.bring_home(is_given_up)
    }

    /// Makes a file with what was written before, which shares its blocks with the home of this host until one changes
    /// them.
    ///
    /// # Errors
    /// There is such a file, or the file system of home cannot share blocks, or home is elsewhere, or it was given up.
    pub fn snapshot_to(&self, file: &Path, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        let _one = self.core.operated.try_lock().map_err(|_| OperateError::Busy)?;
        self.core.bring_home(is_given_up)?;
        self.core.home.share(file).ok_or(OperateError::Elsewhere)?.map_err(OperateError::Home)
    }

    /// Returns the volume another size; a smaller one only if it may lose what is behind that. Clients see it when they
    /// connect again.
    ///
    /// # Errors
    /// Why it has the one of before; or why it has the new one, and home does not yet.
    pub fn resize(&self, size: u64, may_shrink: bool, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        if !is_size(size) {
            return Err(OperateError::Size(size));
        }
        let _one = self.core.operated.try_lock().map_err(|_| OperateError::Busy)?;
        let before = self.core.size.load(Relaxed);
        if size < before && !may_shrink {
            return Err(OperateError::Shrinks(before));
        }
        self.core.resize(size, is_given_up)
    }
}

impl Core {
    fn resize(&self, size: u64, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        let epoch = self.state().owner.epoch();
        if size > self.home.size() {
            self.home.resize(epoch, size, is_given_up)?;
        }
        // It takes no longer than any write, and is the volume's size from then on: nobody may give it up half-way.
        self.ask(&|| false, |state, request| {
            let trim = state.owner.resize(self.now(), request, size).map_err(OperateError::Declined)?;
            // Nothing behind the new end is read or written from now on.
            self.size.fetch_min(size, Relaxed);
            if let Some(trim) = trim {
                self.append_trim(state, trim);
            }
            Ok(())
        })?;
        self.size.store(size, Relaxed);
        self.state().runs.forget();
        if size < self.home.size() {
            self.bring_home(is_given_up)?;
            let resized = self.home.resize(epoch, size, is_given_up);
            // Also if it was given up: home may do it all the same.
            self.state().runs.forget();
            resized?;
        }
        Ok(())
    }

    pub(super) fn bring_home(&self, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        self.ask(is_given_up, |state, request| {
            state.owner.bring_home(self.now(), request);
            Ok(())
        })
    }

    /// The trim that the owner has numbered goes to the log, as a write does.
    fn append_trim(&self, state: &mut State, Record { stamp, extent, content }: Record) {
        let at = |byte: u64| (byte / BLOCK as u64) as u32;
        let (blocks, position) = (at(extent.offset)..at(extent.offset + extent.len), self.base + stamp.sequence.0);
        state.dirty.push(position, stamp.flush, blocks.clone(), content.clone());
        state.clean.drop_blocks(blocks.clone());
        // The caller makes the log durable.
        self.log_write(state, position, Write { epoch: stamp.epoch, flush: stamp.flush, blocks, content });
    }

    /// Asks the owner for something, makes the log durable for it, and waits for the answer until it is given up.
    pub(super) fn ask(
        &self,
        is_given_up: &dyn Fn() -> bool,
        ask: impl FnOnce(&mut State, RequestId) -> Result<(), OperateError>,
    ) -> Result<(), OperateError> {
        let (answer, answered) = channel();
        let replies: Arc<dyn Replies> = Arc::new(Asked(answer));
        let ticket = Ticket { cookie: 0, offset: 0, len: 0, form: Form::Simple };
        let mut state: MutexGuard<'_, State> = self.state();
        let request = state.requests.add(ticket, &replies, 1);
        if let Err(error) = ask(&mut state, request) {
            state.requests.finish(request, Err(errno(Declined::Stopped)));
            self.carry_out(state, None);
            return Err(error);
        }
        self.keep.notify_one();
        self.carry_out(state, None);
        self.lead(None);
        drop(replies);
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Ok(Ok(())) => return Ok(()),
                // Nobody hears the answer any more.
                Err(RecvTimeoutError::Timeout) if is_given_up() => return Err(OperateError::GivenUp),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let why = self.state().failed.clone();
        Err(OperateError::Ended(why.unwrap_or_else(|| "it was detached".to_owned())))
    }
}
