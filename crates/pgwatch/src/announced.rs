//! The watcher's updates at the hub, by the watcher's numbers.

use crate::error::WatchError;
use coherence::{Dependency, Ended, Update, Updates};
use std::collections::HashMap;
use std::mem;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

/// Updates that are under way.
pub(crate) struct Announced {
    hub: Updates,
    waiting: HashMap<u64, AbortHandle>,
    released: HashMap<u64, Update>,
    told: UnboundedSender<(u64, Result<Update, Ended>)>,
    heard: UnboundedReceiver<(u64, Result<Update, Ended>)>,
    is_caught_up: bool,
}

impl Announced {
    /// None yet.
    pub(crate) fn new(hub: Updates) -> Self {
        let (told, heard) = mpsc::unbounded_channel();
        Self { hub, waiting: HashMap::new(), released: HashMap::new(), told, heard, is_caught_up: false }
    }

    /// Announces an update.
    pub(crate) fn begin(&mut self, update: u64, dependencies: Vec<Dependency>) {
        let (hub, told) = (self.hub.clone(), self.told.clone());
        let task = tokio::spawn(async move {
            let released = hub.announce(dependencies).await;
            // Nobody hears of it if the watcher has ended meanwhile.
            let _ = told.send((update, released));
        });
        self.waiting.insert(update, task.abort_handle());
    }

    /// The next update that is released.
    pub(crate) async fn next(&mut self) -> Result<u64, WatchError> {
        loop {
            let (update, released) = self.heard.recv().await.expect("the other end is kept here");
            let released = released.map_err(|Ended| WatchError::Hub)?;
            // It has lapsed, if nobody waits for it any more.
            if self.waiting.remove(&update).is_some() {
                self.released.insert(update, released);
                return Ok(update);
            }
        }
    }

    /// Whether all that was released still is. A hub elsewhere that was not heard of for long may have given updates up:
    /// this is asked last before a commit may become visible.
    pub(crate) fn are_released(&self) -> bool {
        self.released.values().all(Update::is_released)
    }

    /// An update is visible, or something else is marked in its place.
    pub(crate) fn end(&mut self, update: u64) {
        if let Some(task) = self.waiting.remove(&update) {
            task.abort();
        }
        if let Some(update) = self.released.remove(&update) {
            update.visible();
        }
    }

    /// All is visible that was confirmed before there was this hub.
    pub(crate) fn caught_up(&mut self) {
        if !mem::replace(&mut self.is_caught_up, true) {
            self.hub.caught_up();
        }
    }

    /// Takes what is released, and marked.
    pub(crate) fn take(&mut self) -> Vec<Update> {
        self.released.drain().map(|(_, update)| update).collect()
    }
}
