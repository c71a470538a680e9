//! The library's promises, each against a model or under real concurrency.

mod bytes;
mod explicit;
mod gone;
mod inserts;
mod kinds;
mod large;
mod lifetime;
mod map;
mod model;
mod names;
mod operations;
mod raw;
mod relay;
mod scratch;
mod server;
mod spaces;
mod tasks;
mod transactions;
mod windows;
