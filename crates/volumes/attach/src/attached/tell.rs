//! The registry's entry, as home receives it: if the registry is lost, it is made again of that, and if it goes
//! back, a host that takes over finds out.
//!
//! Home is told after the registry, and nothing waits for that: a home that is away is told when it is there again. So
//! what it has kept is never ahead of the registry.

use super::{Core, State};
use crate::far::{FarError, FarHome, GivenUp};
use crate::home::Home;
use machines::messages::holder::{Epoch, PartitionId};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// How often to look whether there is something to tell.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A home that did not take it is told again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The parts of an entry that home is notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct News {
    epoch: Epoch,
    size: u64,
    holders: Vec<PartitionId>,
}

impl Core {
    /// The thread that tells home.
    pub(super) fn tell_home(self: &Arc<Self>) {
        let Home::Far(home) = &self.home else { return };
        let (mut line, mut told) = (None, None);
        let mut pause = Duration::ZERO;
        while let Some(news) = self.wait_for_news(pause, told.as_ref()) {
            match self.tell_news(home, &mut line, &news) {
                Ok(true) => (told, pause) = (Some(news), Duration::ZERO),
                // The registry's own news is under way here.
                Ok(false) => pause = LOOK_EVERY,
                Err(_) => (line, pause) = (None, AGAIN_AFTER),
            }
        }
    }

    /// Waits for this long, and then until there is something to tell; `None` when it is over.
    fn wait_for_news(&self, pause: Duration, told: Option<&News>) -> Option<News> {
        let is_on = |state: &mut State| !state.is_closing && state.failed.is_none();
        let mut state = self.state();
        let mut within = pause;
        loop {
            if !within.is_zero() {
                let waited: (MutexGuard<'_, State>, _) =
                    self.tells.wait_timeout_while(state, within, is_on).unwrap_or_else(PoisonError::into_inner);
                state = waited.0;
            }
            if !is_on(&mut state) {
                return None;
            }
            let (entry, _) = state.owner.registered_as()?;
            let news = News { epoch: entry.epoch, size: entry.size, holders: entry.holders.clone() };
            if told != Some(&news) {
                return Some(news);
            }
            within = LOOK_EVERY;
        }
    }

    /// Tells home, if the registry has just that here; in a session of its own, as a write-back may take long in
    /// another.
    fn tell_news(self: &Arc<Self>, home: &FarHome, line: &mut Option<FarHome>, news: &News) -> Result<bool, FarError> {
        let Some(copies) = &self.copies else { return Ok(false) };
        let Ok(named) = copies.registry.named(copies.volume) else { return Ok(false) };
        let entry = &named.view.entry;
        if (entry.epoch, entry.size, &entry.holders) != (news.epoch, news.size, &news.holders) {
            return Ok(false);
        }
        let home = if let Some(line) = line {
            line
        } else {
            let core = Arc::downgrade(self);
            let is_over: GivenUp = Arc::new(move || core.upgrade().is_none_or(|core| core.state().is_closing));
            line.insert(FarHome::connect_until(home.address(), copies.volume, &copies.runtime, is_over)?)
        };
        home.keep(&named)?;
        Ok(true)
    }
}
