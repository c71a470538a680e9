//! The room that a commit or a grant needs.

/// The room that is needed in the MOB, at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) mob_bytes: usize,
    /// Whether it is for pages that nothing is in.
    pub(crate) is_new: bool,
}
