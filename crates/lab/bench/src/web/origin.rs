//! An origin that makes its responses as they are asked for.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// An origin on loopback. `/BYTES/NUMBER` has a body of this many bytes, and depends on a name of its own and on one
/// that all have. Its threads end with the process.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
}

/// The largest body.
const BODY_BYTES_MAX: usize = 1 << 20;

impl Origin {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, asked) = (listener.local_addr()?, Arc::<AtomicU64>::default());
        let count = asked.clone();
        let letters: Arc<[u8]> = (b'a'..=b'z').cycle().take(BODY_BYTES_MAX).collect();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, letters) = (count.clone(), letters.clone());
                // A client that goes is no error.
                thread::spawn(move || drop(serve(&stream, &letters, &count)));
            }
        });
        Ok(Self { address, asked })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have come.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

fn serve(stream: &TcpStream, letters: &[u8], count: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut line, mut response) = (BufReader::new(stream), String::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (bytes, number) = numbers(line.split(' ').nth(1).unwrap_or_default());
        response.clear();
        response.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        response.extend_from_slice(fields(bytes, number).as_bytes());
        response.extend_from_slice(b"\r\n");
        response.extend_from_slice(&letters[..bytes.min(letters.len())]);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        count.fetch_add(1, Relaxed);
        (&mut &*stream).write_all(&response)?;
    }
}

/// The parts of a path: how many bytes, and which number.
fn numbers(path: &str) -> (usize, usize) {
    let mut parts = path.trim_start_matches('/').split('/').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next())
}

/// The fields of a response.
pub(crate) fn fields(bytes: usize, number: usize) -> String {
    format!(
        "Date: Sun, 06 Nov 2044 08:49:37 GMT\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {bytes}\r\n\
         Cache-Control: public, max-age=86400\r\nETag: \"{number}\"\r\n\
         Cache-Groups: \"item:{number}\", \"list:all\"\r\n"
    )
}
