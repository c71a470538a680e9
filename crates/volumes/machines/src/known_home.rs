//! The home of a volume, as those remember it who have written to it: an owner while it lives, and its cache from one
//! attachment to the next.
//!
//! Home has what was freed everywhere else, so it must not go back. One whose files were restored, exchanged or copied
//! draws another *generation*; one that went back below its own files, as a snapshot of its disk does, has an older
//! mark.

use crate::messages::holder::Stamp;
use crate::rule::Rule;
use core::fmt;
use types::Broken;

/// How a home stands, as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeState {
    /// A number that home draws again whenever it cannot show that its files are those that it left.
    pub generation: u64,
    /// Everything up to here is home.
    pub mark: Stamp,
}

/// A home that is not as it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// As it was known.
    pub known: HomeState,
    /// As it is.
    pub found: HomeState,
}

impl WentBack {
    /// Whether it lacks writes for certain. One that was exchanged and has the mark of before may be a copy.
    pub fn is_older(&self) -> bool {
        self.found.mark < self.known.mark
    }
}

impl fmt::Display for WentBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (known, found) = (self.known.mark, self.found.mark);
        if !self.is_older() {
            return f.write_str("its files are not those that it left: they were restored, exchanged or copied");
        }
        if known.epoch == found.epoch {
            let lacks = known.sequence.0 - found.sequence.0;
            write!(f, "it has the writes through {} of attachment {}, ", found.sequence.0, found.epoch.0)?;
            return write!(f, "and had those through {}: it lacks {lacks} writes", known.sequence.0);
        }
        write!(f, "it has the writes through {} of attachment {}, ", found.sequence.0, found.epoch.0)?;
        write!(f, "and had those through {} of attachment {}", known.sequence.0, known.epoch.0)
    }
}

/// The memory of a home.
#[derive(Clone, Copy, Debug)]
pub struct KnownHome {
    state: Option<HomeState>,
    broken: Broken<Rule>,
}

impl KnownHome {
    /// The memory of one that was never learned of.
    pub fn new(broken: Broken<Rule>) -> Self {
        Self { state: None, broken }
    }

    /// Home as it was known last, if it ever was.
    pub fn state(&self) -> Option<HomeState> {
        self.state
    }

    /// Home says how it stands, at the begin of a session: nothing else is asked of one that went back (**HomeStays**).
    ///
    /// # Errors
    /// It is not as it was left.
    pub fn hear(&mut self, found: HomeState) -> Result<(), WentBack> {
        if let Some(known) = self.state.filter(|_| !self.broken.is(Rule::HomeStays))
            && (found.generation != known.generation || found.mark < known.mark)
        {
            return Err(WentBack { known, found });
        }
        self.state = Some(found);
        Ok(())
    }

    /// Home has everything up to here, durably.
    pub fn is_home(&mut self, mark: Stamp) {
        if let Some(state) = &mut self.state {
            state.mark = state.mark.max(mark);
        }
    }
}
