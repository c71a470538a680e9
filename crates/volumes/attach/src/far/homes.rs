//! All homes at an address, as an operator asks about them.

use super::line::Line;
use super::machine::Outcome;
use super::survey::{ANSWER, Survey};
use super::{CONNECT_PATIENCE, FarError, PATIENCE};
use machines::messages::holder::VolumeId;
use machines::messages::home::{FoundHome, NotDone};
use net::Runtime;
use std::fmt;
use std::time::Duration;

/// All homes at an address.
pub struct FarHomes {
    line: Line<Survey>,
    homes: Vec<FoundHome>,
}

impl FarHomes {
    /// Asks which homes there are at this address.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn connect(address: &str, runtime: &Runtime) -> Result<Self, FarError> {
        let mut line = Line::open(address, Survey::default(), CONNECT_PATIENCE, runtime, None)?;
        let homes = line.wait(ANSWER, Survey::take_homes)?;
        line.patience = PATIENCE;
        let address = || line.address().to_owned();
        let homes = homes.map_err(|why| match why {
            NotDone::Failed(text) => FarError::Failed(address(), text),
            _ => FarError::NotHome(address()),
        })?;
        Ok(Self { line, homes })
    }

    /// Those that there are, by their numbers.
    pub fn list(&self) -> &[FoundHome] {
        &self.homes
    }

    /// Removes the files of one that no session has open, if nothing was written to it for this time.
    ///
    /// # Errors
    /// Why it is there still; or the session was lost, and nobody knows.
    pub fn remove(&self, volume: VolumeId, unwritten: Duration) -> Result<(), FarError> {
        if !self.line.call(|machine| machine.remove(volume, unwritten.as_secs())) {
            return Err(self.line.away());
        }
        let address = self.line.address().to_owned();
        match self.line.wait(ANSWER, Survey::take_removed)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Refused(why) => Err(FarError::refused(why, address, volume)),
            Outcome::Lost => Err(FarError::Lost(address)),
        }
    }
}

impl fmt::Debug for FarHomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarHomes").field("address", &self.line.address()).finish_non_exhaustive()
    }
}
