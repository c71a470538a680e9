//! The meaning of an error of the operating system, call by call: the one place that decides it.
//!
//! | verdict | what is done |
//! |---|---|
//! | passes | the call had no effect and may succeed later: it is tried again, with a growing pause, while commits wait |
//! | no room | the disk is full: nothing grows, what waits for room waits or is refused, and it is tried again |
//! | fails | nothing is known of the disk any more: the store stops, and recovery decides |
//!
//! A sync that fails has lost what it was to keep, and says so once: it is never tried again, whatever the error. Only
//! of a file that nothing depends on yet another can be made in its place.
//!
//! While a store is being opened nothing is waited for: a call that is refused then ends the start, with its reason.

use rustix::io::Errno;
use std::io;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opens or makes a file.
    Open,
    /// Reads, or asks for a length.
    Read,
    /// Writes, or changes a length.
    Write,
    /// Renames or removes a file.
    Name,
    /// Syncs a file, or a directory, that nothing depends on yet.
    SyncNew,
    /// Syncs a file that holds what was accepted.
    Sync,
}

/// The meaning of an error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may succeed later.
    Passes,
    /// There is no room.
    NoRoom,
    /// The disk has failed.
    Fails,
}

use Verdict::{Fails, NoRoom, Passes};

/// Every error that is not the disk's failure, with its verdict at each call, in the order of [`Call`].
const TABLE: [(Errno, [Verdict; 6]); 8] = [
    //                 open    read    write   name    sync new  sync
    (Errno::MFILE, [Passes, Fails, Fails, Fails, Passes, Fails]),
    (Errno::NFILE, [Passes, Fails, Fails, Fails, Passes, Fails]),
    (Errno::NOMEM, [Passes, Passes, Passes, Passes, Passes, Fails]),
    (Errno::AGAIN, [Passes, Passes, Passes, Passes, Passes, Fails]),
    (Errno::INTR, [Passes, Passes, Passes, Passes, Passes, Fails]),
    (Errno::NOSPC, [NoRoom, Fails, NoRoom, NoRoom, NoRoom, Fails]),
    (Errno::DQUOT, [NoRoom, Fails, NoRoom, NoRoom, NoRoom, Fails]),
    (Errno::FBIG, [Fails, Fails, NoRoom, Fails, Fails, Fails]),
];

/// Decides what an error of a call means.
pub fn judge(call: Call, error: &io::Error) -> Verdict {
    let listed = TABLE.iter().find(|(errno, _)| error.raw_os_error() == Some(errno.raw_os_error()));
    listed.map_or(Fails, |(_, verdicts)| verdicts[call as usize])
}

/// A call that the system refused.
#[derive(Debug)]
pub struct Refused {
    /// The call that failed.
    pub call: Call,
    /// The system's error.
    pub source: io::Error,
}

impl Refused {
    /// The meaning of that error for that call.
    pub fn verdict(&self) -> Verdict {
        judge(self.call, &self.source)
    }
}

/// Returns which call it was that the system refused.
pub trait On<T> {
    /// Adds it to the error.
    fn on(self, call: Call) -> Result<T, Refused>;
}

impl<T> On<T> for io::Result<T> {
    fn on(self, call: Call) -> Result<T, Refused> {
        self.map_err(|source| Refused { call, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: [Call; 6] = [Call::Open, Call::Read, Call::Write, Call::Name, Call::SyncNew, Call::Sync];

    fn of(errno: Errno) -> [Verdict; 6] {
        CALLS.map(|call| judge(call, &io::Error::from_raw_os_error(errno.raw_os_error())))
    }

    #[test]
    fn a_sync_that_failed_is_never_tried_again() {
        for (errno, _) in TABLE {
            assert_eq!(of(errno)[5], Fails, "{errno:?}");
        }
    }

    #[test]
    fn an_error_that_is_not_known_to_pass_is_a_failed_disk() {
        for errno in [Errno::IO, Errno::ROFS, Errno::NXIO, Errno::NODEV, Errno::BADF, Errno::INVAL, Errno::STALE] {
            assert_eq!(of(errno), [Fails; 6], "{errno:?}");
        }
        assert_eq!(judge(Call::Open, &io::Error::other("no number")), Fails);
    }

    #[test]
    fn a_lack_passes_where_the_call_had_no_effect() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert_eq!(of(errno), [Passes, Fails, Fails, Fails, Passes, Fails], "{errno:?}");
        }
        for errno in [Errno::NOMEM, Errno::AGAIN, Errno::INTR] {
            assert_eq!(of(errno), [Passes, Passes, Passes, Passes, Passes, Fails], "{errno:?}");
        }
    }

    #[test]
    fn a_full_disk_and_a_quota_are_no_room_wherever_something_grows() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert_eq!(of(errno), [NoRoom, Fails, NoRoom, NoRoom, NoRoom, Fails], "{errno:?}");
        }
        assert_eq!(of(Errno::FBIG)[Call::Write as usize], NoRoom);
    }
}
