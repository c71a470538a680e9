//! The program as a user meets it: the built binary, real directories, real connections.

mod collections;
mod crash;
mod designs;
mod errors;
mod experiments;
mod full_disk;
mod groups;
mod pages;
mod program;
mod single;
