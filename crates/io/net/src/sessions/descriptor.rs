//! Passing a descriptor to a process of this machine that connects, before any message: a file of memory that both
//! have.
//!
//! ```text
//!   0              8                16
//!   +--------------+----------------+
//!   | "thorp-fd"   | the clock, ns  |  and a descriptor (SCM_RIGHTS)
//!   +--------------+----------------+
//! ```
//! What is in the file may be judged by the machine's clock (`host/clock.rs`). Processes in different namespaces of
//! time do not have the same one: the end that connects sees that, as the other end's clock was read after it has begun
//! to connect, and before now.

use crate::host::clock::Clock;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::io::Interest;
use types::Time;

const GREETING: [u8; 8] = *b"thorp-fd";

const BYTES: usize = GREETING.len() + size_of::<u64>();

/// Takes a descriptor that the process at the other end has passed.
#[derive(Clone)]
pub struct TakeDescriptor(Arc<dyn Fn(OwnedFd) -> Result<(), String> + Send + Sync>);

impl TakeDescriptor {
    /// By this function, which says why it does not want it, if so: then there is no session.
    pub fn new(take: impl Fn(OwnedFd) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn take(&self, passed: OwnedFd) -> Result<(), String> {
        self.0(passed)
    }
}

impl fmt::Debug for TakeDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeDescriptor")
    }
}

/// Passes a descriptor on a connection that has just come, which has room for it.
pub(crate) fn pass(stream: &UnixStream, passed: &OwnedFd) -> io::Result<()> {
    let mut greeting = [0; BYTES];
    greeting[..8].copy_from_slice(&GREETING);
    greeting[8..].copy_from_slice(&Clock::now().0.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [passed.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sent = sendmsg(stream, &[IoSlice::new(&greeting)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Takes the descriptor of the process at the other end, to which this one began to connect at that time.
pub(crate) async fn take(stream: &tokio::net::UnixStream, begun: Time) -> io::Result<OwnedFd> {
    let (clock, passed) = stream.async_io(Interest::READABLE, || receive(stream)).await?;
    if clock < begun || clock > Clock::now() {
        let text = "it has another clock: both processes are to be in one namespace of time";
        return Err(io::Error::other(text));
    }
    Ok(passed)
}

fn receive(stream: &tokio::net::UnixStream) -> io::Result<(Time, OwnedFd)> {
    let mut greeting = [0; BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut greeting)];
    let received = recvmsg(stream, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let passed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let (said, clock) = greeting.split_at(GREETING.len());
    match passed {
        Some(passed) if received.bytes == BYTES && said == GREETING => {
            Ok((Time(u64::from_le_bytes(clock.try_into().expect("eight bytes"))), passed))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it passes no descriptor as homes do")),
    }
}
