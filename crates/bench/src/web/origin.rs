//! An origin that has its responses ready in memory.

use crate::Result;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// An origin on loopback. `/BYTES/NUMBER` has a body of so many bytes, and depends on a name of its own. Its threads end
/// with the process.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: AtomicU64,
    responses: Mutex<HashMap<String, Arc<[u8]>>>,
}

impl Origin {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, state) = (listener.local_addr()?, Arc::<State>::default());
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                // A client that goes is no error.
                thread::spawn(move || drop(serve(&stream, &state)));
            }
        });
        Ok(Self { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have come.
    pub(crate) fn asked(&self) -> u64 {
        self.state.asked.load(Relaxed)
    }
}

fn serve(stream: &TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut line) = (BufReader::new(stream), String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let response = state.response(line.split(' ').nth(1).unwrap_or_default());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        state.asked.fetch_add(1, Relaxed);
        (&mut &*stream).write_all(&response)?;
    }
}

impl State {
    fn response(&self, path: &str) -> Arc<[u8]> {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.entry(path.to_owned()).or_insert_with(|| make(path).into()).clone()
    }
}

fn make(path: &str) -> Vec<u8> {
    let mut parts = path.trim_start_matches('/').split('/').map(|part| part.parse::<usize>().unwrap_or(0));
    let (bytes, number) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {bytes}\r\n\
         Cache-Control: public, max-age=86400\r\nETag: \"{number}\"\r\nCache-Groups: \"item:{number}\", \"list:all\"\r\n\r\n"
    )
    .into_bytes();
    response.extend((0..bytes).map(|index| b'a' + (index % 26) as u8));
    response
}
