//! The work of Thorp's users, as actors for tests, the benchmark and the demo.

pub mod design;
pub mod oo7;
mod random;

pub use random::Random;
