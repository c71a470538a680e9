//! A line between two ends of TCP that can be dead.

use coherence::HomeAddress;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// The connections that are dead.
#[derive(Clone, Copy, Default)]
enum Dead {
    #[default]
    None,
    All,
    /// All but the one of this number.
    AllBut(usize),
}

impl Dead {
    fn is(self, number: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::AllBut(other) => number != other,
        }
    }
}

/// A line that can be dead for a while: no end learns of it.
pub(crate) struct Relay {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    dead: Arc<(Mutex<Dead>, Condvar)>,
    is_over: Arc<AtomicBool>,
}

impl Relay {
    /// One to who answers lookups for a home that takes sessions there, and the address of the home behind it.
    pub(crate) fn to_responder(home: SocketAddr) -> (Self, HomeAddress) {
        let relay = Self::to(SocketAddr::new(home.ip(), home.port() + 1));
        let look_ups = relay.address().to_string();
        (relay, HomeAddress::Network { sessions: home.to_string(), look_ups })
    }

    pub(crate) fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (all_dead, is_over) = (Arc::<(Mutex<Dead>, Condvar)>::default(), Arc::<AtomicBool>::default());
        let (dead, over) = (all_dead.clone(), is_over.clone());
        let connections = Arc::<AtomicUsize>::default();
        let count = connections.clone();
        thread::spawn(move || {
            for (number, near) in listener.incoming().enumerate() {
                if over.load(SeqCst) {
                    return;
                }
                count.fetch_add(1, SeqCst);
                let (near, far) = (near.unwrap(), TcpStream::connect(upstream).unwrap());
                for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let dead = dead.clone();
                    thread::spawn(move || pass(from, to, number, &dead));
                }
            }
        });
        Self { address, connections, dead: all_dead, is_over }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set_dead(&self, is_dead: bool) {
        self.set(if is_dead { Dead::All } else { Dead::None });
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// All connections are dead but the last that there has been.
    pub(crate) fn leave_the_last(&self) {
        self.set(Dead::AllBut(self.connections.load(SeqCst) - 1));
    }

    fn set(&self, dead: Dead) {
        *self.dead.0.lock().unwrap() = dead;
        self.dead.1.notify_all();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, number: usize, (dead, changed): &(Mutex<Dead>, Condvar)) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        drop(changed.wait_while(dead.lock().unwrap(), |dead| dead.is(number)).unwrap());
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set_dead(false);
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}
