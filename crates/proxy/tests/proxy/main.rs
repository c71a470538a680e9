//! The proxy as its clients and its origin meet it: real connections, hostile bytes.

mod caching;
mod coherence;
mod harness;
mod joining;
mod limits;
mod passing;
mod smuggling;
