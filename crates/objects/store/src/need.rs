//! The room that a commit or a grant needs.

/// The room that is needed, at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// In the MOB, in bytes.
    pub(crate) mob_bytes: usize,
    /// In the log, in bytes.
    pub(crate) log_bytes: u64,
    /// Whether it is for pages that nothing is in.
    pub(crate) is_new: bool,
}
