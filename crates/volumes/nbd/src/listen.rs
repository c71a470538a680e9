//! Addresses, and the thread that takes connections at one.

use super::limits::{PROBE_AFTER, PROBE_EVERY, PROBES_MAX};
use net::{ListenError, listen_at_socket, refuse_open_network};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The port that is registered for the protocol.
const PORT: u16 = 10809;

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port; port 0 lets the system choose one.
    Tcp(SocketAddr),
}

/// A text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an address to serve at: say unix:PATH, or nbd://HOST or nbd://HOST:PORT", self.0)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(refused()) } else { Ok(Self::Unix(path.into())) };
        }
        let host = text.strip_prefix("nbd://").unwrap_or(text).trim_end_matches('/');
        let with_port = host.to_socket_addrs().or_else(|_| format!("{host}:{PORT}").to_socket_addrs());
        with_port.ok().and_then(|mut all| all.next()).map(Self::Tcp).ok_or_else(refused)
    }
}

/// As clients are told: the URI of the export without a name.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Self::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

impl Address {
    /// The error of a system that does not let it be served at.
    pub(super) fn refused(&self, error: io::Error) -> ListenError {
        match self {
            Self::Unix(path) => ListenError::Socket(path.clone(), error),
            Self::Tcp(address) => ListenError::Bind(*address, error),
        }
    }
}

/// An address that is taken.
#[derive(Debug)]
pub(super) enum Door {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

impl Door {
    pub(super) fn open(address: &Address, insecure: bool) -> Result<Self, ListenError> {
        match address {
            Address::Unix(path) => listen_at_socket(path).map(|listener| Self::Unix(listener, path.clone())),
            Address::Tcp(address) => {
                refuse_open_network(*address, insecure)?;
                TcpListener::bind(address).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    let address = listener.local_addr()?;
                    Ok(Self::Tcp(listener, address))
                })
            }
        }
        .map_err(|error| address.refused(error))
    }

    pub(super) fn address(&self) -> Address {
        match self {
            Self::Unix(_, path) => Address::Unix(path.clone()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    /// Gives connections to `take` until the event is told.
    pub(super) fn accept_until(&self, end: BorrowedFd<'_>, mut take: impl FnMut(OwnedFd)) {
        loop {
            let mut waits = [PollFd::new(self, PollFlags::IN), PollFd::from_borrowed_fd(end, PollFlags::IN)];
            // An interrupted wait has nothing; then there is none to accept.
            let _ = poll(&mut waits, None);
            if !waits[1].revents().is_empty() {
                return;
            }
            match self.accept() {
                Ok(socket) => take(socket),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
                // One connection that broke is its own affair; a lack of file descriptors is better waited out.
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Unix(listener, _) => Ok(listener.accept()?.0.into()),
            Self::Tcp(listener, _) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                // A client whose machine is gone says nothing ever again.
                let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
                let probes = probes.with_retries(PROBES_MAX);
                SockRef::from(&stream).set_tcp_keepalive(&probes)?;
                Ok(stream.into())
            }
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!("unix:/run/a".parse(), Ok(Address::Unix("/run/a".into())));
        assert_eq!("nbd://127.0.0.1:7".parse(), Ok(tcp("127.0.0.1:7")));
        assert_eq!("nbd://127.0.0.1".parse(), Ok(tcp("127.0.0.1:10809")));
        assert_eq!("nbd://[::1]/".parse(), Ok(tcp("[::1]:10809")));
        assert_eq!("127.0.0.1:0".parse(), Ok(tcp("127.0.0.1:0")));
        for text in ["unix:", "", "nbd://", "nbd://nowhere.invalid:x"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
