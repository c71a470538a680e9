//! The updates of a watcher at its hub, by the watcher's numbers.

use crate::updates::{Ended, Update, Updates};
use homes::{Dependency, Fence};
use std::collections::HashMap;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

/// Updates that are under way, for a thread that runs tasks of tokio.
#[derive(Debug)]
pub struct Announced {
    hub: Updates,
    waiting: HashMap<u64, AbortHandle>,
    released: HashMap<u64, Update>,
    told: UnboundedSender<(u64, Result<Update, Ended>)>,
    heard: UnboundedReceiver<(u64, Result<Update, Ended>)>,
    /// The number with which it was said that all before is visible.
    caught_up: Option<Fence>,
}

impl Announced {
    /// None yet, at this hub.
    pub fn new(hub: Updates) -> Self {
        let (told, heard) = mpsc::unbounded_channel();
        Self { hub, waiting: HashMap::new(), released: HashMap::new(), told, heard, caught_up: None }
    }

    /// Announces an update: the hub knows of it when this is over.
    ///
    /// # Panics
    /// Outside of a task of tokio.
    pub fn begin(&mut self, update: u64, dependencies: Vec<Dependency>) {
        let (announced, told) = (self.hub.begin(dependencies), self.told.clone());
        let task = tokio::spawn(async move {
            let released = announced.released().await;
            // Nobody learns of it if the watcher has ended in the meantime.
            let _ = told.send((update, released));
        });
        self.waiting.insert(update, task.abort_handle());
    }

    /// The next update that is released.
    ///
    /// # Errors
    /// The hub has ended.
    pub async fn next(&mut self) -> Result<u64, Ended> {
        loop {
            let (update, released) = self.heard.recv().await.expect("the other end is kept here");
            let released = released?;
            // It has lapsed, if no request waits for it any more.
            if self.waiting.remove(&update).is_some() {
                self.released.insert(update, released);
                return Ok(update);
            }
        }
    }

    /// Whether everything that was released still is. A hub elsewhere that was not learned of for long may have given
    /// updates up: this is asked last before a commit may become visible.
    pub fn are_released(&self) -> bool {
        self.released.values().all(Update::is_released)
    }

    /// An update is visible, or something else is marked in its place.
    pub fn end(&mut self, update: u64) {
        if let Some(task) = self.waiting.remove(&update) {
            task.abort();
        }
        if let Some(update) = self.released.remove(&update) {
            update.visible();
        }
    }

    /// All is visible that was confirmed before there was this hub, or before the source was got hold of under this
    /// number.
    pub fn caught_up(&mut self, fence: Fence) {
        if self.caught_up.replace(fence) != Some(fence) {
            self.hub.caught_up(fence);
        }
    }

    /// Takes what is released, and marked.
    pub fn take(&mut self) -> Vec<Update> {
        self.released.drain().map(|(_, update)| update).collect()
    }
}
