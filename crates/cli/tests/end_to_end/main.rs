//! The program as a user meets it: the built binary, real directories, real connections.

mod collections;
mod configuration;
mod crash;
mod descriptors;
mod designs;
mod distance;
mod errors;
mod experiments;
mod fio_volumes;
mod full_disk;
mod full_volumes;
mod groups;
mod guest;
mod hostile;
mod leases;
mod mounted_volumes;
#[path = "../../../volumes/tests/mounts/mounts.rs"]
mod mounts;
mod pages;
mod panics;
mod pipes;
mod places;
mod program;
mod raw;
mod removal;
mod restored;
mod shop;
mod single;
mod spaces;
mod stored_volumes;
mod verify;
mod volumes;
mod watch;
mod watch_store;
mod web;
mod web_disk;
