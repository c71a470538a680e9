//! Locks of paths in a directory that this process has open (rule PExcludes): its users exclude each other.
//!
//! A switch under way keeps locks from being granted, so a lock is granted before a switch is compared with it, or
//! after the switch.

use crate::error::FilesError;
use crate::line::lock;
use crate::locks::LockPlace;
use crate::record::SiteName;
use spread::LockState;
use spread::messages::Token;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tree::Path;

/// How long a lock is waited for that was recalled.
const LEASE: Duration = Duration::from_secs(10);

/// The locks of all sites.
#[derive(Debug, Default)]
pub(super) struct Locks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<(String, Path), Held>,
    last: u64,
    /// Switches that are under way.
    switches: usize,
}

#[derive(Debug)]
struct Held {
    token: Token,
    recalled: Option<Instant>,
}

/// A switch that is under way, and meets no lock of others.
#[derive(Debug)]
pub(super) struct Switching<'a>(&'a Locks);

/// A lock that is held.
#[derive(Debug)]
pub(super) struct LocalLock {
    locks: Arc<Locks>,
    token: Token,
}

/// A switch, as it meets locks.
pub(super) struct Meeting<'a> {
    pub(super) site: &'a SiteName,
    /// The locks of its publisher.
    pub(super) own: &'a [Token],
    /// Whether it ends the locks of others.
    pub(super) ends_locks: bool,
}

impl State {
    /// Ends the locks that were recalled a lease ago.
    fn expire(&mut self) {
        self.held.retain(|_, held| held.recalled.is_none_or(|recalled| recalled.elapsed() < LEASE));
    }

    fn state(&self, token: Token) -> LockState {
        match self.held.values().find(|held| held.token == token) {
            None => LockState::Over,
            Some(Held { recalled: Some(recalled), .. }) if recalled.elapsed() >= LEASE => LockState::Over,
            Some(Held { recalled: Some(_), .. }) => LockState::Recalled,
            Some(_) => LockState::Held,
        }
    }
}

impl Locks {
    /// Locks a path, waiting for its holder at most so long.
    pub(super) fn take(
        self: &Arc<Self>,
        site: &SiteName,
        path: &Path,
        within: Duration,
    ) -> Result<LocalLock, FilesError> {
        let (begun, place) = (Instant::now(), (site.to_string(), path.clone()));
        let mut state = lock(&self.state);
        loop {
            state.expire();
            let switches = state.switches;
            match state.held.get_mut(&place) {
                None if switches == 0 => {
                    state.last += 1;
                    let token = Token { life: 0, number: state.last };
                    state.held.insert(place, Held { token, recalled: None });
                    return Ok(LocalLock { locks: self.clone(), token });
                }
                Some(held) if held.recalled.is_none() => {
                    held.recalled = Some(Instant::now());
                    self.changed.notify_all();
                }
                _ => {}
            }
            if begun.elapsed() >= within {
                return Err(FilesError::Locked(site.to_string(), path.to_string()));
            }
            state = self.wait(state, within.saturating_sub(begun.elapsed()));
        }
    }

    /// Waits until a switch meets no lock of others. `changed` returns which of some paths it changes.
    pub(super) fn meet(
        &self,
        meeting: &Meeting<'_>,
        changed: impl Fn(Vec<Path>) -> Vec<Path>,
    ) -> Result<Switching<'_>, FilesError> {
        let Meeting { site, own, ends_locks } = meeting;
        loop {
            let mut state = lock(&self.state);
            state.expire();
            if own.iter().any(|token| state.state(*token) == LockState::Over) {
                return Err(FilesError::LockOver(site.to_string()));
            }
            let is_others =
                |((of, _), held): &(&(String, Path), &Held)| of == site.as_str() && !own.contains(&held.token);
            let others: Vec<Path> = state.held.iter().filter(is_others).map(|((_, path), _)| path.clone()).collect();
            state.switches += 1;
            drop(state);
            let switching = Switching(self);
            if others.is_empty() {
                return Ok(switching);
            }
            let changed: Vec<(String, Path)> =
                changed(others).into_iter().map(|path| (site.to_string(), path)).collect();
            let mut state = lock(&self.state);
            if *ends_locks {
                state.held.retain(|place, _| !changed.contains(place));
            }
            let mut is_met = false;
            for place in &changed {
                if let Some(held) = state.held.get_mut(place) {
                    held.recalled.get_or_insert_with(Instant::now);
                    is_met = true;
                }
            }
            self.changed.notify_all();
            drop(state);
            if !is_met {
                return Ok(switching);
            }
            drop(switching);
            let mut state = lock(&self.state);
            let is_held = |state: &State| changed.iter().any(|place| state.held.contains_key(place));
            while is_held(&state) {
                state = self.wait(state, LEASE);
                state.expire();
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, within: Duration) -> MutexGuard<'a, State> {
        // A lock that ends with its lease wakes no waiter.
        let within = within.min(LEASE / 100);
        self.changed.wait_timeout(state, within).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl LocalLock {
    pub(super) fn token(&self) -> Token {
        self.token
    }
}

impl LockPlace for LocalLock {
    fn state(&self) -> LockState {
        lock(&self.locks.state).state(self.token)
    }

    fn wait(&self, within: Duration) -> LockState {
        let (begun, mut state) = (Instant::now(), lock(&self.locks.state));
        while state.state(self.token) == LockState::Held && begun.elapsed() < within {
            state = self.locks.wait(state, within.saturating_sub(begun.elapsed()));
        }
        state.state(self.token)
    }
}

impl Drop for LocalLock {
    fn drop(&mut self) {
        lock(&self.locks.state).held.retain(|_, held| held.token != self.token);
        self.locks.changed.notify_all();
    }
}

impl Drop for Switching<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).switches -= 1;
        self.0.changed.notify_all();
    }
}
