//! Why a helper does not start.

use std::error::Error;
use std::fmt;

/// Why a helper does not start.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

impl StartError {
    pub(crate) fn new(what: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self { what: what.into(), source: Box::new(source) }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
