//! The CoopReplica paper's experiments: its figure 2, and the reliability study that it planned (section 4) and could not do.
//!
//! | module | duty |
//! |---|---|
//! | `reliability` | how long dirty data lasts, by the number of its copies |
//! | `chart` | the same as curves |
//! | `cost` | the same in short, for the demo |
//! | `throughput` | figure 2: write throughput with copies and without |
//! | `takeover` | how long it takes to bring home what a dead host has left |
//! | `house` | the processes of these two |

mod chart;
mod cost;
mod house;
mod reliability;
mod takeover;
mod throughput;

pub use chart::draw_reliability;
pub use cost::{CopiesCost, copies_cost};
pub use reliability::{COPIES_MAX, Lasting, reliability};
pub use takeover::take_overs;
pub use throughput::{COOPREPLICA_FIGURE, coopreplica};
