//! A line on loopback that can be cut: it passes on all bytes at once, until it is told to hold them.
//!
//! ```text
//!   client ----+
//!              +--TCP--> [ who connects? ] --TCP--> the node
//!   node n2 ---+
//! ```
//! Clients and nodes come to one address. The relay knows a node by the hello on its link, so that the line between two
//! nodes can be cut alone. While a line is cut its bytes wait, as packets that TCP sends again and again; a new
//! connection waits too. A cut that outlasts what TCP waits for ends the connections at both ends ([`Relay::lose`]).

use crate::Result;
use crate::lab::Cut;
use framing::{Inbox, Wants};
use messages::{NodeHello, ToNode};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use types::NodeId;

/// How long a connection may take to show who opens it.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// The bytes that are read at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// The process that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A node of the store, by its link.
    Node(NodeId),
    /// Any other.
    Client,
}

/// A line to one server. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    cuts: Vec<(Caller, Cut)>,
    /// The connections, by their numbers.
    connections: Vec<Connection>,
    last_number: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    caller: Caller,
    ends: [TcpStream; 2],
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Direction {
    number: u64,
    caller: Caller,
    /// The cut that holds it, beside one of both directions.
    cut: Cut,
}

impl Relay {
    /// Begins a line to the server at this address, which need not be there yet.
    pub(crate) fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { server, state: Mutex::default(), changed: Condvar::new() });
        let accepting = shared.clone();
        spawn(move || accepting.accept(&listener))?;
        Ok(Self { address, shared })
    }

    /// Where clients and nodes connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds what passes between the server and a caller, in one direction or both; the caller is the site.
    pub(crate) fn cut(&self, caller: Caller, cut: Cut) {
        self.shared.state().cuts.push((caller, cut));
    }

    /// Ends the connections of a caller at both ends, as TCP does that has waited for too long.
    pub(crate) fn lose(&self, caller: Caller) {
        self.shared.state().end(|connection| connection.caller == caller);
        self.shared.changed.notify_all();
    }

    /// Passes everything on again.
    pub(crate) fn mend(&self) {
        self.shared.state().cuts.clear();
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        state.end(|_| true);
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread; if that fails, so does its listener.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn end(&mut self, is_meant: impl Fn(&Connection) -> bool) {
        self.connections.retain(|connection| {
            let is_meant = is_meant(connection);
            if is_meant {
                // An error means that the end has gone.
                connection.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
            !is_meant
        });
    }

    fn holds(&self, direction: &Direction) -> bool {
        let is_cut =
            |&(caller, cut): &(Caller, Cut)| caller == direction.caller && (cut == Cut::Both || cut == direction.cut);
        self.cuts.iter().any(is_cut) && self.is_there(direction.number)
    }

    fn is_there(&self, number: u64) -> bool {
        self.connections.iter().any(|connection| connection.number == number)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            if self.state().is_over {
                return;
            }
            let shared = self.clone();
            // A connection that cannot be served closes, as one to a server that is not there.
            let _ = spawn(move || drop(shared.serve(&client)));
        }
    }

    fn serve(self: &Arc<Self>, client: &TcpStream) -> io::Result<()> {
        let (caller, first) = who_connects(client)?;
        self.await_both(caller);
        let server = TcpStream::connect(self.server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let number = self.enter(caller, [client.try_clone()?, server.try_clone()?]);
        let up = Direction { number, caller, cut: Cut::FromSite };
        let down = Direction { cut: Cut::ToSite, ..up };
        let (client_end, server_end, shared) = (client.try_clone()?, server.try_clone()?, self.clone());
        let downward = thread::Builder::new().spawn(move || shared.pass(&down, &server_end, &client_end, &[]))?;
        self.pass(&up, client, &server, &first);
        let _ = downward.join();
        self.state().connections.retain(|connection| connection.number != number);
        Ok(())
    }

    /// Waits until the line of a caller is not cut in both directions, or the relay ends.
    fn await_both(&self, caller: Caller) {
        let is_cut = |state: &mut State| !state.is_over && state.cuts.iter().any(|&(cut_off, _)| cut_off == caller);
        drop(self.changed.wait_while(self.state(), is_cut));
    }

    fn enter(&self, caller: Caller, ends: [TcpStream; 2]) -> u64 {
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        state.connections.push(Connection { number, caller, ends });
        number
    }

    /// Carries one direction of a connection, to its end.
    fn pass(&self, direction: &Direction, mut from: &TcpStream, mut to: &TcpStream, first: &[u8]) {
        let mut piece = vec![0; PIECE_BYTES.max(first.len())];
        piece[..first.len()].copy_from_slice(first);
        let mut bytes = first.len();
        loop {
            drop(self.changed.wait_while(self.state(), |state| state.holds(direction)));
            if to.write_all(&piece[..bytes]).is_err() {
                break;
            }
            match from.read(&mut piece) {
                Ok(read @ 1..) => bytes = read,
                // The end passes no cut either.
                Ok(_) | Err(_) => break,
            }
        }
        drop(self.changed.wait_while(self.state(), |state| state.holds(direction)));
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}

/// Reads what a connection begins with until that shows who opens it. Returns it, to be passed on.
fn who_connects(mut stream: &TcpStream) -> io::Result<(Caller, Vec<u8>)> {
    stream.set_read_timeout(Some(HELLO_WITHIN))?;
    let (mut inbox, mut first, mut piece) = (Inbox::new(messages::nodes::CODEC), Vec::new(), [0; 4096]);
    let caller = loop {
        let bytes = stream.read(&mut piece)?;
        first.extend_from_slice(&piece[..bytes]);
        let message = inbox.next(&mut &piece[..bytes]);
        if inbox.take_preface().is_some_and(|preface| preface.wants != Wants::Session) {
            break Caller::Client;
        }
        match message {
            Ok(None) if bytes > 0 => {}
            Ok(Some(message)) => match message.get() {
                Some(ToNode::NodeHello(NodeHello { node, .. })) => break Caller::Node(*node),
                _ => break Caller::Client,
            },
            // Another family, or another protocol.
            Ok(None) | Err(_) => break Caller::Client,
        }
    };
    stream.set_read_timeout(None)?;
    Ok((caller, first))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("thorp-relay".into()).stack_size(128 * 1024).spawn(work).map(drop)
}
