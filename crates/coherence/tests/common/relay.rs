//! A line between two ends of TCP that can be dead.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A line that can be dead for a while: no end hears of it.
pub(crate) struct Relay {
    address: SocketAddr,
    is_dead: Arc<(Mutex<bool>, Condvar)>,
    is_over: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_dead, is_over) = (Arc::<(Mutex<bool>, Condvar)>::default(), Arc::<AtomicBool>::default());
        let (dead, over) = (is_dead.clone(), is_over.clone());
        thread::spawn(move || {
            for near in listener.incoming() {
                if over.load(SeqCst) {
                    return;
                }
                let (near, far) = (near.unwrap(), TcpStream::connect(upstream).unwrap());
                for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let dead = dead.clone();
                    thread::spawn(move || pass(from, to, &dead));
                }
            }
        });
        Self { address, is_dead, is_over }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set_dead(&self, is_dead: bool) {
        *self.is_dead.0.lock().unwrap() = is_dead;
        self.is_dead.1.notify_all();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, (is_dead, changed): &(Mutex<bool>, Condvar)) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        drop(changed.wait_while(is_dead.lock().unwrap(), |is_dead| *is_dead).unwrap());
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
