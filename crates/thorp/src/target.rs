//! Opens the store that a command speaks to.

use crate::Result;
use crate::cli::Target;
use std::net::{SocketAddr, ToSocketAddrs};
use thorp::Db;

/// The store of `--dir`, inside this process, or the one that listens at `--server`.
pub(crate) fn open(target: &Target) -> Result<Db> {
    match &target.dir {
        Some(dir) => Ok(Db::open(dir)?),
        None => Ok(Db::connect(address(&target.server)?)?),
    }
}

fn address(server: &str) -> Result<SocketAddr> {
    let wrong = "is no address: write HOST:PORT, such as 127.0.0.1:7411";
    let mut found = server.to_socket_addrs().map_err(|error| format!("'{server}' {wrong} ({error})"))?;
    found.next().ok_or_else(|| format!("'{server}' {wrong}").into())
}
