//! The proxy as its clients and its origin meet it: real connections, hostile bytes.

mod access_log;
mod admin;
mod caching;
mod coherence;
mod disk;
mod explain;
mod guide;
mod harness;
mod homes;
mod joining;
mod limits;
mod marked;
mod misread;
mod passing;
mod reload;
mod smuggling;
mod tls;
mod uploads;
