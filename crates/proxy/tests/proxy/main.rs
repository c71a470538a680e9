//! The proxy as its clients and its origin meet it: real connections, hostile bytes.

mod admin;
mod caching;
mod coherence;
mod disk;
mod explain;
mod guide;
mod harness;
mod joining;
mod limits;
mod marked;
mod passing;
mod reload;
mod smuggling;
mod tls;
mod uploads;
