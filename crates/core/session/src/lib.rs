//! Where a session is tried next, and when: for an end that connects. It is pure: the time is given, and what should be
//! done is said.
#![no_std]

pub mod dialer;

pub use dialer::{Attempt, Dialer, Next, Target, Times};
