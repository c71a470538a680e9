//! A cache whose device has failed, where that is to end nothing: dirty data goes home, and from then on everything does at
//! once.
//!
//! ```text
//!   the log: through here --+-- write, write, write       memory, until they are home
//!            (read only)    ^
//!                           the failure
//! ```
//! 1. The owner counts nothing more of the log (**LostLogUncounted**): a write, or a flush, is answered when it is home.
//! 2. The log's writes go home out of the log. If it cannot be read either, nothing can go on, and all of it ends: a holder
//!    brings home what it has copies of.
//! 3. **ForgetLostCache**: a start that finds the cache again, as its device works again, must not take what that has for
//!    the newest. When home has all that the log had, and before a later flush epoch is written there, a home of this host forgets
//!    the cache. A home elsewhere has a mark, and that is then behind the log's last write.

use super::{CacheFailure, Core, State};
use crate::cache::Write;
use crate::home::HomeError;
use protocol::volumes::Stamp;
use vfs::FileError;

impl Core {
    /// A file of the cache could not be written.
    pub(super) fn cache_failed(&self, error: &FileError) {
        // Anything else than a refusal of the system's is a fault of this program's.
        if self.cache_failure == CacheFailure::Stop || !matches!(error, FileError::Io { .. }) {
            return self.fail(error.to_string());
        }
        self.log.fail();
        let mut state = self.state();
        if state.lost_cache.is_none() {
            state.lost_cache = Some(error.to_string());
            let now = self.now();
            state.owner.lose_log(now);
        }
        self.carry_out(state, None);
        self.wake_all();
    }

    /// A write that the owner has numbered goes to the log, if there is one. Says whether the keeper has to know of it, if
    /// nobody waits for it.
    pub(super) fn log_write(&self, state: &mut State, position: u64, write: Write) -> bool {
        if state.lost_cache.is_some() {
            return false;
        }
        let bytes = write.content.len() + crate::extents::BLOCK as u64;
        self.log.append(position, write);
        Self::count_unflushed(state, bytes)
    }

    /// Everything up to here is home, durably: home forgets a lost cache that has nothing behind it.
    pub(super) fn forget_cache(&self, through: Stamp) -> Result<(), HomeError> {
        let is_lost = self.state().lost_cache.is_some();
        if is_lost && self.base + through.sequence.0 >= self.log.durable() {
            self.home.forget_cache()?;
        }
        Ok(())
    }
}
