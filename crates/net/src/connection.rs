//! One connection: who reads it, and how it ends.
//!
//! ```text
//!   watched --the first message in time--> heard --> ended: by the peer, by this end, by what is no message
//!      |
//!      +-- nothing --> ended
//! ```
//! 1. One thread receives at a time, and gives the node what it has received before another may: messages are handled
//!    in their order.
//! 2. No thread waits for that. One that finds another receiving leaves word that something has arrived; the other
//!    looks for such word after it has let go.

use crate::host::Host;
use crate::link::Link;
use crate::socket::Socket;
use crate::standing::Standing;
use crate::turn::Turn;
use protocol::{GROUP, Goodbye, Message, Welcome};
use rustix::event::epoll::EventFlags;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use types::{GoodbyeReason, PeerKey};
use wire::{End, Inbox, WireError};

/// What one connection may receive before it is another's turn, in bytes.
const TURN_BYTES_MAX: usize = 1024 * 1024;

/// How long an ended connection is kept for its last words to arrive, and how much is read meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Nothing has arrived that has not been received.
const NOTHING: u8 = 0;
/// Something has arrived.
const SOME: u8 = 1;
/// The last of it has arrived: the end is to be read too, of which nothing is told a second time.
const LAST: u8 = 2;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    host: Weak<Host>,
    link: Arc<Link>,
    peer: Peer,
    arrived: AtomicU8,
    /// The first message has arrived.
    heard: AtomicBool,
    /// The peer lives: bytes have come or gone since the node was told.
    lives: AtomicBool,
    /// What was sent has left, which the node has awaited and was not told of yet.
    has_room: AtomicBool,
    /// The node knows of it.
    known: AtomicBool,
    receiver: Mutex<Receiver>,
}

/// Who is at the other end.
#[derive(Debug)]
pub(crate) enum Peer {
    /// A client of our store or redirector. The node hears of it with its first message.
    Guest,
    /// Somebody who would send our client pages. The node hears of it when it has shown this key.
    Neighbour(PeerKey),
    /// The store or redirector at this address, which we open a session with.
    Server(String, Arc<Standing>),
    /// A neighbour whom our client sends pages to. It has nothing to say.
    Requester,
}

/// What a node is given of its connections.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// One is up.
    Up(node::Link),
    /// A sign of life: some of a message has arrived, or the peer takes what is sent to it.
    Heard(node::Link),
    /// What was sent on it has left, which the node has awaited.
    Room(node::Link),
    /// A message.
    Message(node::Link, Message),
    /// Neighbours are taken from now on, at this address and with this key.
    Reachable(String, PeerKey),
}

#[derive(Debug)]
struct Receiver {
    inbox: Inbox,
    /// Told once why nothing more is received.
    ended: Option<oneshot::Sender<Ended>>,
    /// What is to be told.
    end: Option<Ended>,
}

/// Why nothing more is received.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The peer has closed the connection, or it broke.
    Lost(Option<io::Error>),
    /// What came is not Thorp's protocol, or breaks it.
    Malformed(WireError),
    /// This end does not want it: the reason's name, what the peer is told, and the text for a person.
    Refused(&'static str, GoodbyeReason, String),
    /// This end is done with it.
    Here,
}

/// Where a connection tells why it has ended.
pub(crate) type Why = oneshot::Receiver<Ended>;

/// The right to receive from a connection, held until what was received is with the node.
pub(crate) struct Receiving<'a>(MutexGuard<'a, Receiver>);

impl Connection {
    /// A connection, and where it is told why it has ended.
    pub(crate) fn new(host: Weak<Host>, link: Arc<Link>, peer: Peer) -> (Arc<Self>, Why) {
        let (ended, why) = oneshot::channel();
        let receiver = Receiver { inbox: Inbox::new(reader(link.id())), ended: Some(ended), end: None };
        let connection = Self {
            host,
            link,
            known: AtomicBool::new(!matches!(peer, Peer::Guest | Peer::Neighbour(_))),
            peer,
            arrived: AtomicU8::new(NOTHING),
            heard: AtomicBool::new(false),
            lives: AtomicBool::new(false),
            has_room: AtomicBool::new(false),
            receiver: Mutex::new(receiver),
        };
        (Arc::new(connection), why)
    }

    pub(crate) fn host(&self) -> &Weak<Host> {
        &self.host
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.link.socket()
    }

    /// Something has happened to the socket. Says whether there is something to receive.
    pub(crate) fn told(&self, flags: EventFlags) -> bool {
        if flags.contains(EventFlags::OUT) {
            self.go_on();
            // There is room because the peer has taken something. The node hears of it as of what arrives.
            self.lives.store(true, Relaxed);
            self.has_arrived();
        }
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.arrived.fetch_max(LAST, SeqCst);
        } else if flags.contains(EventFlags::IN) {
            self.has_arrived();
        }
        self.is_waiting()
    }

    /// The socket has room.
    fn go_on(&self) {
        let has_room = match self.host.upgrade() {
            Some(host) => host.contain(|| self.link.go_on()).unwrap_or(false),
            // Last words, of a host that is gone.
            None => self.link.go_on(),
        };
        self.has_room.fetch_or(has_room, Relaxed);
    }

    /// Something has arrived.
    pub(crate) fn has_arrived(&self) {
        self.arrived.fetch_max(SOME, SeqCst);
    }

    /// Whether something has arrived that was not received.
    pub(crate) fn is_waiting(&self) -> bool {
        self.arrived.load(SeqCst) != NOTHING
    }

    /// Whether nothing more is received.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().ended.is_none()
    }

    /// Receives what has arrived, unless there is nothing, or another thread is at it.
    pub(crate) fn receive(
        &self,
        host: &Host,
        buffer: &mut [u8],
        incoming: &mut Vec<Incoming>,
    ) -> Option<Receiving<'_>> {
        if !self.is_waiting() {
            return None;
        }
        let mut receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let is_last = self.arrived.swap(NOTHING, SeqCst) == LAST;
        receiver.ended.as_ref()?;
        let messages = incoming.len();
        let mut said = |message| self.hear(host, message, incoming);
        match receiver.read(self, is_last, buffer, host, &mut said) {
            Ok(true) => {}
            Ok(false) => drop(self.arrived.fetch_max(if is_last { LAST } else { SOME }, SeqCst)),
            Err(ended) => receiver.end = Some(ended),
        }
        // A message is a sign of life itself.
        if self.lives.swap(false, Relaxed) && incoming.len() == messages && self.is_known() {
            incoming.push(Incoming::Heard(self.link.id()));
        }
        if self.has_room.swap(false, Relaxed) {
            incoming.push(Incoming::Room(self.link.id()));
        }
        Some(Receiving(receiver))
    }

    /// Passes a message on to the node. Says why no more are wanted, if that is so.
    fn hear(&self, host: &Host, message: Message, incoming: &mut Vec<Incoming>) -> Option<Ended> {
        let is_first = !self.heard.swap(true, Relaxed);
        let id = self.link.id();
        match &self.peer {
            Peer::Guest if is_first && matches!(message, Message::AskStatus(_)) => {
                host.tell_status(&self.link);
                return Some(Ended::Here);
            }
            Peer::Neighbour(key) if is_first && !has_key(&message, *key) => {
                let text = "expected a neighbour with the key that my redirector gives, got another".to_owned();
                return Some(Ended::Refused("stranger", GoodbyeReason::Stranger, text));
            }
            Peer::Guest | Peer::Neighbour(_) if is_first => {
                self.known.store(true, Relaxed);
                host.add_link(&self.link);
                incoming.push(Incoming::Up(id));
            }
            Peer::Guest | Peer::Neighbour(_) | Peer::Requester => {}
            Peer::Server(address, standing) => {
                if let (node::Link::Uplink, Message::Welcome(welcome)) = (id, &message) {
                    incoming.extend(self.open_uplink(host, welcome));
                }
                // Whoever waits for the session finds the rest as it should be.
                standing.heard(address, &message);
            }
        }
        let over = match (id, &message) {
            // What ends a session of ours with a guest is the node's to say.
            (node::Link::Session(_), _) => None,
            (_, Message::Goodbye(_)) => Some(Ended::Here),
            (node::Link::ToPeer(_), _) => {
                let text = "expected nothing but a Goodbye of who is sent pages".to_owned();
                Some(Ended::Refused("direction", GoodbyeReason::Malformed, text))
            }
            _ => None,
        };
        incoming.push(Incoming::Message(id, message));
        over
    }

    /// Our client is welcome. If it is a redirector that says so, the client has neighbours.
    fn open_uplink(&self, host: &Host, welcome: &Welcome) -> Option<Incoming> {
        let is_member = welcome.features & GROUP != 0;
        host.uplink.is_member.store(is_member, Relaxed);
        if is_member { host.take_neighbours(self.socket()) } else { None }
    }

    /// Whether the node knows of the connection.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Has the connection received until it ends. Something must come within `first_within`, if that is given.
    /// Afterwards nothing is received any more.
    pub(crate) async fn run(self: &Arc<Self>, why: Why, first_within: Option<Duration>) -> Ended {
        let watched = self.socket().reactor().map(|(reactor, id)| reactor.watch(id, self));
        let ended = match watched {
            Some(Ok(())) => self.ended(why, first_within).await,
            Some(Err(error)) => Ended::Lost(Some(error)),
            None => tokio::select! {
                ended = self.ended(why, first_within) => ended,
                error = self.receive_here() => Ended::Lost(error.err()),
            },
        };
        self.lock().ended = None;
        ended
    }

    /// Receives as a task of the application's runtime, as long as it is polled.
    async fn receive_here(self: &Arc<Self>) -> io::Result<()> {
        // The runtime watches a handle of its own; all reading and writing goes by the socket's.
        let (watched, mut turn) = (TcpStream::from_std(self.socket().try_clone()?)?, Turn::new());
        let mut room = pin!(self.has_room(&watched));
        while !self.is_over() {
            if self.is_waiting() {
                // So much has come that others had their turn; now it is theirs here.
                tokio::task::yield_now().await;
            } else {
                let edge = poll_fn(|context| match room.as_mut().poll(context) {
                    Poll::Ready(room) => Poll::Ready(room.map(|()| EventFlags::OUT)),
                    Poll::Pending => watched.poll_read_ready(context).map_ok(|()| EventFlags::IN),
                });
                let edge = edge.await?;
                if edge == EventFlags::OUT {
                    expect_edge(&watched, Interest::WRITABLE);
                    room.set(self.has_room(&watched));
                } else {
                    expect_edge(&watched, Interest::READABLE);
                }
                self.told(edge);
            }
            turn.take(slice::from_ref(self));
        }
        // Why it is over is told elsewhere.
        std::future::pending().await
    }

    /// Waits until the socket has been full and has room again.
    async fn has_room(&self, watched: &TcpStream) -> io::Result<()> {
        self.socket().is_full().await;
        watched.writable().await
    }

    async fn ended(&self, why: Why, first_within: Option<Duration>) -> Ended {
        tokio::select! {
            // The sender goes only with the reactor, which goes only with the runtime.
            ended = why => ended.unwrap_or(Ended::Here),
            () = self.link.ended() => Ended::Here,
            silent = self.silent(first_within) => silent,
        }
    }

    /// Waits for nothing to have come within a time; for ever if something has.
    async fn silent(&self, first_within: Option<Duration>) -> Ended {
        if let Some(within) = first_within {
            tokio::time::sleep(within).await;
            if !self.heard.load(Relaxed) {
                let text = format!("nothing was said within {} ms", within.as_millis());
                return Ended::Refused("silent", GoodbyeReason::Silent, text);
            }
        }
        std::future::pending().await
    }

    /// Ends the connection: tells the peer why, if it is this end that ends it, and lets that arrive.
    pub(crate) async fn finish(&self, ended: Ended) {
        match ended {
            Ended::Lost(_) => self.link.abandon(),
            Ended::Here => self.linger().await,
            Ended::Malformed(error) => self.refuse(error.name(), GoodbyeReason::Malformed, error.to_string()).await,
            Ended::Refused(name, reason, text) => self.refuse(name, reason, text).await,
        }
        if let Some((reactor, id)) = self.socket().reactor() {
            reactor.forget(id, self);
        }
    }

    async fn refuse(&self, name: &'static str, reason: GoodbyeReason, text: String) {
        if let Some(host) = self.host.upgrade() {
            host.counters().refused(name);
        }
        self.link.end(Goodbye { reason, text });
        self.linger().await;
    }

    /// Lets the last words of an ended connection arrive: who closes a socket with unread bytes in it takes back what
    /// he has just sent.
    async fn linger(&self) {
        let Ok(mut stream) = self.socket().try_clone().and_then(TcpStream::from_std) else { return };
        let drain = async {
            let (mut buffer, mut left) = ([0; 4096], LINGER_BYTES_MAX);
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                left = left.saturating_sub(bytes);
                if left == 0 {
                    return;
                }
            }
        };
        // Either the peer has closed its side, or it had its time.
        let _ = tokio::time::timeout(LINGER, drain).await;
    }

    fn lock(&self) -> MutexGuard<'_, Receiver> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a neighbour shows the key with its first message.
fn has_key(message: &Message, key: PeerKey) -> bool {
    matches!(message, Message::PeerHello(hello) if hello.key == key)
}

/// Which messages are for this end of a link.
fn reader(link: node::Link) -> End {
    match link {
        node::Link::Session(_) => End::Store,
        node::Link::Uplink | node::Link::Trunk => End::Client,
        node::Link::ToPeer(_) | node::Link::FromPeer(_) => End::Peer,
    }
}

/// Has the runtime tell of the socket's next edge. To be called before it is seen what there is: what comes after that
/// is told of.
fn expect_edge(watched: &TcpStream, interest: Interest) {
    let _ = watched.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}

impl Receiver {
    /// Reads what has arrived, to the end if it is the last, and tells each message that is complete with it, until one
    /// is the last that is wanted. Says whether it was all.
    fn read(
        &mut self,
        connection: &Connection,
        is_last: bool,
        buffer: &mut [u8],
        host: &Host,
        said: &mut dyn FnMut(Message) -> Option<Ended>,
    ) -> Result<bool, Ended> {
        let mut total = 0;
        while total < TURN_BYTES_MAX {
            let read = match self.read_some(connection.socket(), buffer) {
                Ok(Read { bytes: 0, .. }) => return Err(Ended::Lost(None)),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Ended::Lost(Some(error))),
            };
            host.counters().bytes_in.fetch_add(read.bytes as u64, Relaxed);
            connection.lives.store(true, Relaxed);
            let mut arrived = if read.is_in_place { &[][..] } else { &buffer[..read.bytes] };
            while let Some(message) = self.inbox.next(&mut arrived).map_err(Ended::Malformed)? {
                if let Some(over) = said(message) {
                    return Err(over);
                }
            }
            // A socket that gave less than it could has no more.
            if read.bytes < read.room && !is_last {
                return Ok(true);
            }
            total += read.bytes;
        }
        Ok(false)
    }

    /// Reads once: what is much into its place, the rest into the buffer.
    fn read_some(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<Read> {
        if let Some(body) = self.inbox.direct() {
            let room = body.capacity() - body.len();
            return Ok(Read { bytes: socket.read_behind(body)?, room, is_in_place: true });
        }
        Ok(Read { bytes: socket.read(buffer)?, room: buffer.len(), is_in_place: false })
    }
}

/// What was read at once, in bytes.
struct Read {
    bytes: usize,
    /// How much it could have been.
    room: usize,
    /// Whether it is in the inbox already.
    is_in_place: bool,
}

impl Receiving<'_> {
    /// What was received is with the node.
    pub(crate) fn done(mut self) {
        if let Some(ended) = self.0.end.take()
            && let Some(told) = self.0.ended.take()
        {
            // Who is not there to hear has ended the connection.
            let _ = told.send(ended);
        }
    }
}
