//! A handle to a connection that a runtime of tokio watches: of TCP, or of a socket of this machine.

use socket2::Domain;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// The handle. Reading and writing go by the socket that it is a clone of.
pub(crate) enum Watched {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Watched {
    /// Watches from now on.
    pub(crate) fn new(socket: socket2::Socket) -> io::Result<Self> {
        if socket.domain()? == Domain::UNIX {
            UnixStream::from_std(OwnedFd::from(socket).into()).map(Self::Unix)
        } else {
            TcpStream::from_std(socket.into()).map(Self::Tcp)
        }
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Reads or writes by `work`; if it would have to wait, the runtime reports the next edge.
    pub(crate) fn try_io<R>(&self, interest: Interest, work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, work),
            Self::Unix(stream) => stream.try_io(interest, work),
        }
    }
}
