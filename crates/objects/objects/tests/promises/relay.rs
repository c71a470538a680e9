//! A line to a server that can be cut, or fall silent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    carried: Arc<Mutex<Vec<TcpStream>>>,
    silent: Arc<AtomicBool>,
    swallowed: Receiver<()>,
}

impl Relay {
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (swallow, swallowed) = channel();
        let relay = Self { address, carried: Arc::default(), silent: Arc::default(), swallowed };
        let (carried, silent) = (relay.carried.clone(), relay.silent.clone());
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let server = TcpStream::connect(to).unwrap();
                carried.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let ends = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
                for (from, to) in ends {
                    let (silent, swallow) = (silent.clone(), swallow.clone());
                    thread::spawn(move || carry(from, to, &silent, &swallow));
                }
            }
        });
        relay
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for stream in self.carried.lock().unwrap().drain(..) {
            // It may have ended by the other's cut.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing arrives, and nothing ends.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, SeqCst);
    }

    /// Waits until something has not arrived.
    pub(crate) fn wait_until_swallowed(&self) {
        self.swallowed.recv().unwrap();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool, swallow: &Sender<()>) {
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if silent.load(SeqCst) {
            // A failure to send means that the test has ended.
            let _ = swallow.send(());
        } else if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
