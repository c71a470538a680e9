//! The program as a user meets it: the built binary, real directories, real connections.

mod collections;
mod crash;
mod designs;
mod errors;
mod full_disk;
mod pages;
mod program;
mod single;
