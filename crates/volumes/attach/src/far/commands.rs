//! The commands of a home elsewhere, one after another, until their ends are known.
//!
//! A command whose caller gives up waiting continues at home. The next one waits for its end: a session has one at a
//! time.

use super::machine::{COMMAND, Far, Outcome};
use super::{FarError, FarHome};
use machines::messages::{holder::Stamp, home::ToHome};
use std::thread;
use std::time::{Duration, Instant};

/// A home that is busy is asked again after this long.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Home is busy: it is asked again after a while, if anybody still wants that.
pub(super) fn pause(given_up: Option<&dyn Fn() -> bool>) -> Result<(), FarError> {
    if given_up.is_some_and(|is_given_up| is_given_up()) {
        return Err(FarError::GivenUp);
    }
    thread::sleep(BUSY_PAUSE);
    Ok(())
}

impl FarHome {
    /// Says a command that may be said twice, until its outcome is known.
    pub(super) fn until_done<T: Into<ToHome>>(
        &self,
        given_up: Option<&dyn Fn() -> bool>,
        message: impl Fn() -> T,
    ) -> Result<Option<Stamp>, FarError> {
        let until = Instant::now() + self.line.patience;
        loop {
            if self.begin(given_up, message())? {
                match self.outcome(given_up) {
                    Err(FarError::Lost(_)) => {}
                    Err(FarError::Busy(_)) if Instant::now() < until => pause(given_up)?,
                    outcome => return outcome,
                }
            }
        }
    }

    /// Says a command once it is not busy.
    pub(super) fn once<T: Into<ToHome>>(&self, message: impl Fn() -> T) -> Result<(), FarError> {
        let (until, given_up) = (Instant::now() + self.line.patience, self.line.given_up());
        loop {
            if !self.begin(given_up, message())? {
                continue;
            }
            match self.outcome(given_up) {
                Err(FarError::Busy(_)) if Instant::now() < until => pause(given_up)?,
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Begins a command when home is there, and done with the one before. Returns whether home was told.
    pub(super) fn begin(
        &self,
        given_up: Option<&dyn Fn() -> bool>,
        message: impl Into<ToHome>,
    ) -> Result<bool, FarError> {
        self.opened_unless(given_up)?;
        self.until_certain(given_up, |machine| machine.is_free().then_some(()))?;
        Ok(self.line.call(|machine| machine.command(self.line.now(), message)))
    }

    pub(super) fn outcome(&self, given_up: Option<&dyn Fn() -> bool>) -> Result<Option<Stamp>, FarError> {
        match self.until_certain(given_up, Far::outcome)? {
            Outcome::Done(mark) => Ok(mark),
            Outcome::Refused(why) => Err(self.refused(why)),
            Outcome::Lost => Err(FarError::Lost(self.address().to_owned())),
        }
    }

    /// Waits for the end of a command, which is certain: home answers, the session is lost, or nobody wants to know any
    /// more. A sync may take as long as it wants.
    fn until_certain<T>(
        &self,
        given_up: Option<&dyn Fn() -> bool>,
        mut look: impl FnMut(&mut Far) -> Option<T>,
    ) -> Result<T, FarError> {
        loop {
            match self.line.wait_unless(given_up, COMMAND, &mut look) {
                Err(FarError::Away(_) | FarError::NoHomes(..) | FarError::Lost(_)) if self.line.end().is_none() => {}
                Err(FarError::Away(_) | FarError::NoHomes(..) | FarError::Lost(_)) => return Err(self.line.over()),
                found => return found,
            }
        }
    }
}
