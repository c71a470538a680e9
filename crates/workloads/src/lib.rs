//! What users do with Thorp, as actors for tests, the benchmark and the demo.

pub mod step;
