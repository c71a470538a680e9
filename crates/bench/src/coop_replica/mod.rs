//! The CoopReplica paper's experiments: the reliability study that it planned (section 4) and could not do.
//!
//! | module | duty |
//! |---|---|
//! | `reliability` | how long dirty data lasts, by the number of its copies |
//! | `chart` | the same as curves |

mod chart;
mod reliability;

pub use chart::draw_reliability;
pub use reliability::{COPIES_MAX, Lasting, reliability};
