//! A visitor's connection to a server: HTTP/1.1, one request at a time, and kept for the next one.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take. Servers answer from their own disks.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The bytes of a body, at most: files of the site are small.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The purpose of a request, as browsers state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Opens a page.
    Navigate,
    /// Fetches a part of the page that is open.
    NoCors,
}

/// A client of one server.
pub(super) struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer that has come as a whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    /// The value of a field, by its name in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Requests a path.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer ends early.
    pub(super) fn get(&mut self, path: &str, mode: Mode, cookie: &str) -> io::Result<Answer> {
        let is_kept = self.stream.is_some();
        let answer = self.try_get(path, mode, cookie);
        if answer.is_err() {
            self.stream = None;
        }
        match answer {
            // The connection was one to a server that has been started again since, or has closed it.
            Err(_) if is_kept => self.get(path, mode, cookie),
            answer => answer,
        }
    }

    fn try_get(&mut self, path: &str, mode: Mode, cookie: &str) -> io::Result<Answer> {
        let (address, mode) = (self.address, if mode == Mode::Navigate { "navigate" } else { "no-cors" });
        let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Mode: {mode}\r\n{cookie}\r\n");
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(BufReader::new(connect(address)?)),
        };
        stream.get_mut().write_all(request.as_bytes())?;
        receive(stream)
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}

fn receive(stream: &mut impl BufRead) -> io::Result<Answer> {
    let status = line(stream)?;
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| unexpected(&status))?;
    let mut answer = Answer { status, head: Vec::new(), body: String::new() };
    loop {
        let line = line(stream)?;
        let Some((name, value)) = line.split_once(':') else { break };
        answer.head.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = answer.field("content-length").and_then(|length| length.parse().ok());
    let length = length.filter(|length| *length <= BODY_BYTES_MAX).ok_or_else(|| unexpected("no content-length"))?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    // A server that sends lines without an end is not waited for.
    stream.by_ref().take(8192).read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("expected an answer of HTTP/1.1 with a length, got: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let mut two =
            "HTTP/1.1 200 OK\r\nThorp-Stale: 3\r\nContent-Length: 4\r\n\r\npageHTTP/1.1 503 Service".as_bytes();
        let answer = receive(&mut two).unwrap();
        assert_eq!((answer.status, answer.body.as_str(), answer.field("thorp-stale")), (200, "page", Some("3")));
        assert_eq!(receive(&mut two).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let mut early = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npa".as_bytes();
        assert_eq!(receive(&mut early).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
