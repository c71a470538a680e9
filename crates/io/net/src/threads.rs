//! The threads that receive and do what follows: the reactor's, a caller's own, and those of an application's runtime.

pub(crate) mod adaptive_spin;
pub(crate) mod assist;
pub(crate) mod reactor;
pub(crate) mod read_batch;
pub(crate) mod runtime;
pub(crate) mod serving;
pub(crate) mod stand_by;
