//! Faults of a source that should be watched, and holes that it leaves, for an operator.

use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is promised, or nothing runs.
    Broken,
    /// Some updates may become visible before they are marked.
    Hole,
    /// More is invalidated than had to be.
    Costly,
}

/// A finding, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The finding.
    pub text: String,
    /// A way out.
    pub remedy: String,
}

impl Severity {
    /// Its name, as it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Hole => "hole",
            Self::Costly => "costly",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.severity.name(), self.text, self.remedy)
    }
}
