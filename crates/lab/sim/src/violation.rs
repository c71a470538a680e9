//! The report of a checker on a state that must never be.

use core::fmt;

/// An invariant does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that noticed.
    pub checker: &'static str,
    /// The report's text.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

/// All is well, or not.
pub(crate) type Check = Result<(), Violation>;

/// Holds `truth` against a checker's rule.
pub(crate) fn ensure(truth: bool, checker: &'static str, text: impl FnOnce() -> String) -> Check {
    if truth { Ok(()) } else { Err(Violation { checker, text: text() }) }
}
