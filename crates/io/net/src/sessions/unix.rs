//! Takes sessions of processes of this machine, at a socket in the file system: who may reach its file may connect.

use crate::sessions::host::Host;
use crate::sessions::listen::{Door, ListenError};
use framing::Codec;
use machine::RoleId;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{Permissions, remove_file, set_permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::limits::SESSIONS_MAX;

/// Connections are for the user of the process, and for its group.
const MODE: u32 = 0o660;

/// Connections are for the user of the process alone.
const OWN_MODE: u32 = 0o600;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// How sessions of this machine are taken.
#[derive(Clone, Debug)]
pub struct UnixListenConfig {
    /// The socket's file.
    pub path: PathBuf,
    /// The codec of the machine that serves them.
    pub codec: &'static dyn Codec,
    /// Connections at a time.
    pub sessions_max: usize,
    /// A descriptor that each is given before any message.
    pub passes: Option<Arc<OwnedFd>>,
}

impl UnixListenConfig {
    /// Listens at this file, within the limits of the protocol.
    pub fn new(path: PathBuf, codec: &'static dyn Codec) -> Self {
        Self { path, codec, sessions_max: SESSIONS_MAX, passes: None }
    }
}

impl Host {
    /// Takes sessions of a machine at a socket of this machine until the host ends. The file of a process that has
    /// ended is replaced.
    ///
    /// # Errors
    /// The file cannot be made, or another process listens there.
    pub fn listen_unix(&self, role: RoleId, config: UnixListenConfig) -> Result<(), ListenError> {
        let UnixListenConfig { path, codec, sessions_max, passes } = config;
        let listener = listen_at_socket(&path).map_err(|error| ListenError::Socket(path, error))?;
        let acceptor = self.clients(role, codec, sessions_max);
        self.take_all(acceptor, || tokio::net::UnixListener::from_std(listener).map(|it| Door::Unix(it, passes)));
        Ok(())
    }
}

/// Listens at a socket's file, for this user and its group. The file of a process that has ended is replaced.
pub fn listen_at_socket(path: &Path) -> io::Result<UnixListener> {
    listen_with_mode(path, MODE)
}

/// The same for this user alone.
pub fn listen_at_own_socket(path: &Path) -> io::Result<UnixListener> {
    listen_with_mode(path, OWN_MODE)
}

fn listen_with_mode(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // Before it listens: nobody has connected with other rights.
    set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}
