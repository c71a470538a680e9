//! The NBD server: its protocol as bytes, its threads and limits, and the clients and servers of others.

mod attached;
mod clients;
mod differential;
mod far;
mod files;
mod fuzz;
mod gone;
mod handshake;
mod older_home;
mod requests;
mod rig;
mod runs;
mod threads;
