//! Publishers that lock files, publish under their locks, are asked for them, and die with them.

use crate::day::{Day, PUBLISHERS, key};
use crate::trees::{FILES, path};
use spread::messages::{Refusal, Token};
use spread::{Answer, Client, LockState, Locking, Number, Ticket};
use types::Time;

/// Locks of a publisher at a time.
const LOCKS_MAX: usize = 2;

/// A lock that a publisher has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    /// The publisher, and the number of its run.
    pub(crate) at: usize,
    run: u64,
    ticket: Ticket,
    pub(crate) file: usize,
    /// The lock and the newest revision then, when it was granted.
    granted: Option<(Token, Number)>,
    is_recalled: bool,
}

impl Lock {
    /// The lock, if the publisher has it.
    pub(crate) fn token(&self) -> Option<Token> {
        self.granted.map(|(token, _)| token)
    }
}

impl Day {
    /// A publisher asks for a lock, or releases one.
    pub(crate) fn lock_or_unlock(&mut self) {
        let at = self.draw(PUBLISHERS.len());
        let own = self.locks.iter().filter(|lock| lock.at == at).count();
        match self.draw(10) {
            0 | 1 if own < LOCKS_MAX && !self.is_down(PUBLISHERS[at]) => {
                let file = self.draw(FILES);
                let ask = |client: &mut Client, now: Time| client.lock(now, key(), &path(file));
                if let Some(ticket) = self.world.call(PUBLISHERS[at], ask) {
                    let run = self.publishers[at].get();
                    self.locks.push(Lock { at, run, ticket, file, granted: None, is_recalled: false });
                }
            }
            2 if !self.locks.is_empty() => {
                let which = self.draw(self.locks.len());
                let lock = self.locks.swap_remove(which);
                self.release(&lock);
            }
            _ => {}
        }
    }

    fn release(&mut self, lock: &Lock) {
        self.world.call(PUBLISHERS[lock.at], |client: &mut Client, _| client.forget(lock.ticket));
    }

    /// Looks at all locks: those that are held exclude other publishers.
    pub(crate) fn look_at_locks(&mut self) -> Result<(), String> {
        for mut lock in std::mem::take(&mut self.locks) {
            let look = |client: &mut Client, now: Time| (client.take(lock.ticket), client.lock_state(now, lock.ticket));
            let Some((answer, state)) = self.world.call(PUBLISHERS[lock.at], look) else { continue };
            match answer {
                Some(Answer::Locked(Locking { token, number, root })) => {
                    let is_published = |root| self.truth.find(number).is_some_and(|it| it.revision.root == root);
                    if !root.is_none_or(is_published) {
                        return Err(format!("3: {lock:?} is granted at {number:?}, which is no revision"));
                    }
                    lock.granted = Some((token, number));
                    self.seen.locked += 1;
                }
                Some(Answer::Refused(Refusal::NoSite, ..)) => continue,
                Some(other) => return Err(format!("10: {lock:?} is answered with {other:?}")),
                None => {}
            }
            let Some((token, since)) = lock.granted else {
                self.locks.push(lock);
                continue;
            };
            if state == LockState::Over {
                self.seen.locks_over += 1;
                continue;
            }
            self.truth.excludes(lock.file, (since, token.life), lock.run)?;
            if state == LockState::Recalled {
                self.seen.recalled += usize::from(!lock.is_recalled);
                lock.is_recalled = true;
                // Some hold on to it.
                let is_used = self.jobs[lock.at].as_ref().is_some_and(|job| job.has(token));
                if !is_used && (self.is_resting || self.draw(40) == 0) {
                    self.release(&lock);
                    continue;
                }
            }
            self.locks.push(lock);
        }
        Ok(())
    }

    /// Checks that all requests for locks were answered.
    pub(crate) fn all_locks_are_granted(&self) -> Result<(), String> {
        match self.locks.iter().find(|lock| lock.granted.is_none()) {
            Some(lock) => Err(format!("10: {lock:?} is never granted")),
            None => Ok(()),
        }
    }
}
