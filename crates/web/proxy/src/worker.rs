//! The state that the requests of one thread share under one snapshot of the settings.

use crate::origin::Origin;
use crate::shared::Shared;
use serving::{Delay, ThreadEnd};
use std::sync::Arc;

/// A thread with connections to the origin of its own, under one snapshot of the settings.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    end: ThreadEnd,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, end: ThreadEnd) -> Self {
        Self { origin: Origin::new(shared.clone()), shared, end }
    }

    /// While this is held, a proxy that is told to stop waits, as long as it does for requests. None if it does no
    /// more.
    pub(crate) fn delay_end(&self) -> Option<Delay> {
        self.end.delay()
    }
}
