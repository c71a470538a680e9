//! What the library promises, each against a model or under real concurrency.

mod large;
mod map;
mod relay;
mod scratch;
mod server;
mod tasks;
mod transactions;
