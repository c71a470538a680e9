//! A cache whose device has failed, where that should end nothing: dirty data goes home, and from then on everything
//! does at once.
//!
//! ```text
//!   the log: through here --+-- write, write, write       memory, until they are home
//!            (read only)    ^
//!                           the failure
//! ```
//! 1. The owner counts nothing more of the log (**LostLogUncounted**): a write, or a flush, is answered when it is
//!    written back.
//! 2. The log's writes go home out of the log. If it cannot be read either, nothing can continue, and all of it ends: a
//!    holder brings home what it has copies of.
//! 3. **ForgetLostCache**: a start that finds the cache again, as its device works again, must not take what that has
//!    for the newest. When home has everything that the log counted for, and before anything later is written there, a
//!    home of this host forgets the cache. A home elsewhere has a mark: the first write-back of anything later is
//!    installed whole or not at all, and the mark is past the log's last write from then on.

use super::{CacheFailure, Core, State};
use crate::cache::Write;
use crate::extents::BLOCK;
use crate::home::HomeError;
use machines::messages::holder::{Sequence, Stamp};
use vfs::FileError;

/// A cache that takes nothing any more.
#[derive(Clone, Debug)]
pub(super) struct LostCache {
    pub(super) why: String,
    /// The last write that its log counts for. It may have others behind that.
    logged: Sequence,
}

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
            let now = self.now();
            let logged = state.owner.lose_log(now);
            state.lost_cache = Some(LostCache { why: error.to_string(), logged });
        }
        self.carry_out(state, None);
        self.wake_all();
    }

    /// A write that the owner has numbered goes to the log, if there is one. Returns whether the keeper has to know of
    /// it, if no request waits for it: for the log, and for the copies that leave with that.
    pub(super) fn log_write(&self, state: &mut State, position: u64, write: Write) -> bool {
        let bytes = write.content.len() + BLOCK as u64;
        if state.lost_cache.is_none() {
            self.log.append(position, write);
        }
        Self::count_unflushed(state, bytes)
    }

    /// Everything up to here is home, durably: home forgets a lost cache whose log counts for nothing behind it.
    pub(super) fn forget_cache(&self, through: Stamp) -> Result<(), HomeError> {
        let is_over = self.state().lost_cache.as_ref().is_some_and(|lost| through.sequence >= lost.logged);
        if is_over {
            self.home.forget_cache()?;
        }
        Ok(())
    }
}
