//! A thread that serves clients, as its connections see it.

use crate::handshake::Handshakes;
use crate::origin::Origin;
use crate::shared::Shared;
use std::sync::Arc;

/// A thread with connections to the origin of its own.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    pub(crate) handshakes: Handshakes,
}
