//! An end of a connection that says what a test likes, in the protocol's own bytes.

use framing::{Codec, Direction, End, Inbox, Preface, frames_of, preface_frame};
use machine::Parcel;
use messages::{Hello, ToClient, ToServer};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use types::ClientId;

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Raw<Hears = ToClient> {
    stream: TcpStream,
    inbox: Inbox,
    hears: PhantomData<Hears>,
}

impl Raw {
    /// Connects to a store or a redirector and says hello, as this client in this epoch of its sessions.
    pub(crate) fn greet(address: SocketAddr, client: ClientId, epoch: u64) -> Self {
        let mut raw = Self::over(TcpStream::connect(address).unwrap());
        raw.send(&ToServer::Hello(Hello { features: 0, cluster: None, client, epoch }));
        raw
    }
}

/// The end of a link that hears these messages.
pub(crate) trait Side: Direction {
    const CODEC: &'static dyn Codec;
}

impl Side for ToClient {
    const CODEC: &'static dyn Codec = messages::CLIENT;
}

impl Side for machines::FromHolder {
    const CODEC: &'static dyn Codec = machines::messages::holder::OWNER;
}

impl Side for ToServer {
    const CODEC: &'static dyn Codec = messages::SERVER;
}

impl<Hears: Side> Raw<Hears> {
    /// Begins with a preface.
    pub(crate) fn over(mut stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(&preface_frame(Hears::CODEC, &Preface::of(Hears::CODEC)));
        Self { stream, inbox: Inbox::new(Hears::CODEC), hears: PhantomData }
    }

    /// The other end may refuse a message in the middle of it: that is no error here.
    pub(crate) fn send<M: Direction + Clone>(&mut self, message: &M) {
        let frames = frames_of(End::<M, M>::CODEC, &Parcel::new(message.clone()));
        let _ = self.stream.write_all(&frames.unwrap());
    }

    /// The next message; `None` when the other end has closed.
    pub(crate) fn next(&mut self) -> Option<Hears> {
        let mut byte = [0];
        while self.stream.read(&mut byte).unwrap() > 0 {
            if let Some(message) = self.inbox.next(&mut &byte[..]).unwrap() {
                return Some(message.open().unwrap());
            }
        }
        None
    }

    /// Why the other end ends the session, by name and for a person, after any other messages.
    pub(crate) fn goodbye(&mut self) -> (&'static str, String) {
        loop {
            let message = self.next().expect("a goodbye before the end");
            if let Some(goodbye) = message.goodbye() {
                return (goodbye.reason.name(), goodbye.text.clone());
            }
        }
    }
}
