//! A visitor's connection: HTTP/1.1, one request at a time. It does little, because the load of visitors must not be
//! what is measured; a response has to state its length.

use crate::shop::visit::Visit;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The bytes of a response, head and body.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    received: Vec<u8>,
    last: Last,
}

/// The place of the last response in what was received.
#[derive(Debug, Default)]
struct Last {
    status: u16,
    head: usize,
    body: Range<usize>,
}

/// A response that has come as a whole, where its connection has received it.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    status: u16,
    head: &'a str,
    body: &'a [u8],
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let received = Vec::with_capacity(16 * 1024);
        Ok(Self { stream, request: Vec::new(), received, last: Last::default() })
    }

    /// Sends a request, and waits for the whole response. After an error the connection is of no use any more.
    ///
    /// # Errors
    /// The connection breaks, or the response cannot be read.
    pub async fn send(&mut self, visit: &Visit) -> io::Result<Response<'_>> {
        self.request.clear();
        let path = &visit.path;
        match &visit.form {
            None => {
                for part in ["GET ", path, " HTTP/1.1\r\nHost: shop.example\r\n\r\n"] {
                    self.request.extend_from_slice(part.as_bytes());
                }
            }
            Some(form) => {
                let kind = "application/x-www-form-urlencoded";
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: shop.example\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                    form.len()
                );
                self.request.extend(head.bytes().chain(form.bytes()));
            }
        }
        self.stream.write_all(&self.request).await?;
        self.last = self.receive().await?;
        Ok(self.response())
    }

    /// The last response.
    pub fn response(&self) -> Response<'_> {
        let Last { status, head, ref body } = self.last;
        let head = std::str::from_utf8(&self.received[..head]).unwrap_or_default();
        Response { status, head, body: &self.received[body.clone()] }
    }

    async fn receive(&mut self) -> io::Result<Last> {
        self.received.clear();
        let head = loop {
            let searched = self.received.len().saturating_sub(3);
            self.receive_some().await?;
            let end = self.received[searched..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                break searched + end;
            }
        };
        let text = std::str::from_utf8(&self.received[..head]).map_err(|_| invalid("its head is not text"))?;
        let status =
            text.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(|| invalid("it has no status"))?;
        let length: Option<usize> = field(text, "content-length").and_then(|length| length.parse().ok());
        let body = head + 4..head + 4 + length.ok_or_else(|| invalid("it does not state its length"))?;
        if body.end > RESPONSE_BYTES_MAX {
            return Err(invalid("it is too large"));
        }
        while self.received.len() < body.end {
            self.receive_some().await?;
        }
        Ok(Last { status, head, body })
    }

    async fn receive_some(&mut self) -> io::Result<()> {
        if self.received.len() > RESPONSE_BYTES_MAX {
            return Err(invalid("it is too large"));
        }
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl<'a> Response<'a> {
    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        field(self.head, name)
    }

    /// Its body.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Whether a cache had it: by `Cache-Status` (RFC 9211), or by the `X-Cache` of servers that are older than that.
    pub fn is_hit(&self) -> bool {
        let is_hit = |status: &str| status.split(';').skip(1).any(|word| word.trim() == "hit");
        let by_status = self.field("cache-status").is_some_and(is_hit);
        by_status || self.field("x-cache").is_some_and(|cache| cache.starts_with("HIT"))
    }

    /// The things that the page shows, with their versions.
    pub fn versions(&self) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
        let pairs = self.field("shop-versions").unwrap_or_default().split(", ");
        pairs.filter_map(|pair| pair.split_once('=')).filter_map(|(name, version)| Some((name, version.parse().ok()?)))
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split('\n').skip(1).find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a response cannot be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_tells_what_it_shows() {
        let head = "HTTP/1.1 200 OK\r\nCache-Status: thorp; hit; ttl=5\r\nShop-Versions: item:2=7, user:3=1";
        let response = Response { status: 200, head, body: &[] };
        assert!(response.is_hit());
        assert_eq!(response.versions().collect::<Vec<_>>(), [("item:2", 7), ("user:3", 1)]);
        let miss = Response { status: 200, head: "HTTP/1.1 200 OK\r\nX-Cache: MISS", body: &[] };
        assert!(!miss.is_hit() && miss.versions().next().is_none());
    }
}
