//! Open files: as many as the system allows this process, and how many of them are for sessions. A process that lets in
//! no more than it has descriptors for never runs out of them where it would hurt.

use crate::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use types::limits::{SESSIONS_MAX, VOLUME_SESSIONS_MAX};

/// The descriptors of any server beside its sessions and its log: standard streams, the home, the lock, the listener,
/// the poller, and some for connections that are only told why they are refused.
const OWN: u64 = 32;

/// A session has one, and for a moment another, when it begins and when it ends.
const PER_SESSION: u64 = 2;

/// Raises the limit of this process as far as it may. One that is not allowed to continues with what it has.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many connections a process may take that needs so many descriptors for each.
pub(crate) fn connections_max(descriptors: usize) -> Result<usize> {
    connections_within(getrlimit(Resource::Nofile).current, descriptors as u64)
}

/// Likewise within a limit; `None` is no limit.
fn connections_within(limit: Option<u64>, descriptors: u64) -> Result<usize> {
    let Some(limit) = limit else { return Ok(usize::MAX) };
    match limit.saturating_sub(OWN) / descriptors {
        0 => Err(refusal(limit, OWN, OWN + descriptors)),
        connections => Ok(usize::try_from(connections).unwrap_or(usize::MAX)),
    }
}

fn refusal(limit: u64, own: u64, least: u64) -> Error {
    let text = format!("this process may have {limit} files open, and {own} of them are for itself");
    format!("{text}: allow it {least} at least ('ulimit -n')").into()
}

/// The descriptors that a session of homes needs: its own, and its volume's files.
pub(crate) const PER_HOME_SESSION: usize = 5;

/// How many sessions the homes of a store may take: half of what there is goes to them at most.
pub(crate) fn home_sessions_max() -> Result<usize> {
    Ok((connections_max(PER_HOME_SESSION)? / 2).clamp(1, VOLUME_SESSIONS_MAX))
}

/// How many sessions a process may take that has this many other files open.
pub(crate) fn sessions_max(files: usize) -> Result<usize> {
    sessions_within(getrlimit(Resource::Nofile).current, files as u64)
}

/// Likewise within a limit; `None` is no limit.
fn sessions_within(limit: Option<u64>, files: u64) -> Result<usize> {
    let Some(limit) = limit else { return Ok(SESSIONS_MAX) };
    let own = OWN + files;
    match limit.saturating_sub(own) / PER_SESSION {
        0 => Err(refusal(limit, own, own + PER_SESSION)),
        sessions => Ok(usize::try_from(sessions).unwrap_or(SESSIONS_MAX).min(SESSIONS_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_as_many_as_there_are_descriptors_for() {
        assert_eq!(sessions_within(Some(96), 16).unwrap(), 24);
        assert_eq!(sessions_within(Some(u64::MAX), 16).unwrap(), SESSIONS_MAX);
        assert_eq!(sessions_within(None, 16).unwrap(), SESSIONS_MAX);
        assert_eq!(connections_within(Some(132), 2).unwrap(), 50);
        assert!(connections_within(Some(33), 2).is_err());
        let refused = sessions_within(Some(49), 16).unwrap_err().to_string();
        assert!(refused.contains("allow it 50 at least"), "{refused}");
    }
}
