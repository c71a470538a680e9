//! Checks the trailers of HTTP/1.1 clients before hyper reads them. To hyper, a bare line feed in a trailer does not
//! end the line, so it would read the next request as another trailer.
//!
//! Reads end where a head may end. So when hyper has a request whose body comes in chunks, its next read begins with
//! the first chunk. The chunks are followed from there to the trailers. Other malformed bytes are passed on to hyper,
//! which checks everything else itself.

use crate::activity::Activity;
use bytes::{Buf, BytesMut};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose trailers are checked.
#[derive(Debug)]
pub(crate) struct Checked<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Bytes that were read, behind the end of the last read.
    left: BytesMut,
    part: Part,
}

/// The part of the messages that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A head, or a body with a length.
    Other(Line),
    Chunks(Chunk),
    /// Nothing behind trailers that were refused.
    Refused,
}

/// The part of a line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Some bytes. So it is before the first byte of a connection, too.
    Some,
    /// None.
    None,
    /// A carriage return.
    Return,
}

/// The part of a body in chunks that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// The rest of a size, of which this much has been read.
    Size(u64),
    /// The rest of the line behind a size.
    Extension(u64),
    /// This many bytes, with the line break behind a chunk.
    Data(u64),
    /// The begin of a line of trailers.
    Trailer,
    /// The rest of one.
    TrailerRest,
    /// Its line feed.
    TrailerFeed,
    /// The line feed of the empty line.
    LastFeed,
    End,
}

impl<S> Checked<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, left: BytesMut::new(), part: Part::Other(Line::Some) }
    }
}

impl Part {
    /// How many of the bytes are for one read.
    fn end(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Other(line) => Ok(line.end_of_head(bytes)),
            Self::Chunks(chunk) => {
                let end = chunk.end(bytes);
                if end.is_err() {
                    *self = Self::Refused;
                } else if *chunk == Chunk::End {
                    *self = Self::Other(Line::Some);
                }
                end
            }
            Self::Refused => Ok(0),
        }
    }
}

impl Line {
    /// The place behind the first empty line, or behind all bytes.
    fn end_of_head(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match (*self, bytes[at]) {
                (Self::Some, _) => match bytes[at..].iter().position(|&byte| byte == b'\n') {
                    Some(feed) => (*self, at) = (Self::None, at + feed),
                    None => break,
                },
                (_, b'\n') => {
                    *self = Self::Some;
                    return at + 1;
                }
                (Self::None, b'\r') => *self = Self::Return,
                _ => *self = Self::Some,
            }
            at += 1;
        }
        bytes.len()
    }
}

impl Chunk {
    /// The place behind the body, or behind all bytes.
    fn end(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() && *self != Self::End {
            if let Self::Data(left) = *self {
                let count = left.min((bytes.len() - at) as u64);
                *self = if count == left { Self::Size(0) } else { Self::Data(left - count) };
                at += count as usize;
            } else {
                *self = self.behind(bytes[at]).ok_or_else(bare_line_break)?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Returns the part behind a byte of framing; `None` for a bare line break in a trailer.
    fn behind(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Size(0) | Self::Extension(0) | Self::TrailerFeed, b'\n') => Self::Trailer,
            (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size.saturating_add(2)),
            (Self::Size(size), digit) if digit.is_ascii_hexdigit() => {
                let digit = char::from(digit).to_digit(16)?;
                Self::Size(size.saturating_mul(16).saturating_add(digit.into()))
            }
            (Self::Size(size) | Self::Extension(size), _) => Self::Extension(size),
            (Self::Trailer, b'\r') => Self::LastFeed,
            (Self::TrailerRest, b'\r') => Self::TrailerFeed,
            (Self::LastFeed, b'\n') => Self::End,
            (Self::Trailer | Self::TrailerRest, b'\n') | (Self::TrailerFeed | Self::LastFeed, _) => return None,
            (Self::Trailer | Self::TrailerRest, _) => Self::TrailerRest,
            (Self::Data(_) | Self::End, _) => self,
        })
    }
}

fn bare_line_break() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a line of trailers ends in a carriage return and a line feed")
}

impl<S: AsyncRead + Unpin> AsyncRead for Checked<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (before, is_new) = (into.filled().len(), this.left.is_empty());
        if is_new {
            ready!(Pin::new(&mut this.stream).poll_read(cx, into))?;
        }
        if this.activity.take_chunked() {
            this.part = Part::Chunks(Chunk::Size(0));
        }
        if is_new {
            let bytes = &into.filled()[before..];
            let end = this.part.end(bytes)?;
            this.left.extend_from_slice(&bytes[end..]);
            into.set_filled(before + end);
        } else {
            let bytes = &this.left[..this.left.len().min(into.remaining())];
            let end = this.part.end(bytes)?;
            into.put_slice(&bytes[..end]);
            this.left.advance(end);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Checked<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of the reads of these bytes, if they come in pieces of this size.
    fn ends(mut part: Part, text: &str, piece: usize) -> Result<Vec<usize>, usize> {
        let (bytes, mut at, mut ends) = (text.as_bytes(), 0, Vec::new());
        while at < bytes.len() {
            let piece = &bytes[at..bytes.len().min(at + piece)];
            let end = part.end(piece).map_err(|_| at)?;
            at += end;
            if end < piece.len() || part == Part::Other(Line::Some) && bytes[at - 1] == b'\n' {
                ends.push(at);
                break;
            }
        }
        Ok(ends)
    }

    #[test]
    fn a_read_ends_behind_a_head() {
        for head in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "\r\nGET / HTTP/1.1\r\n\n"] {
            for piece in [1, 2, 3, 100] {
                let text = format!("{head}GET / HTTP/1.1\r\n\r\n");
                assert_eq!(
                    ends(Part::Other(Line::Some), &text, piece).unwrap().last(),
                    Some(&head.len()),
                    "{head:?} {piece}"
                );
            }
        }
    }

    #[test]
    fn a_read_ends_behind_a_body_in_chunks() {
        let chunks = Part::Chunks(Chunk::Size(0));
        for body in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "00A;x=\"y\"\r\n0\r\n\r\n\n\r\n\r\r\n0 \r\n\r\n",
            "1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n",
        ] {
            for piece in [1, 2, 3, 100] {
                let text = format!("{body}GET / HTTP/1.1\r\n\r\n");
                assert_eq!(ends(chunks, &text, piece).unwrap().last(), Some(&body.len()), "{body:?} {piece}");
            }
        }
    }

    #[test]
    fn trailers_with_bare_line_breaks_are_refused() {
        let chunks = Part::Chunks(Chunk::Size(0));
        for trailers in ["A: b\n\r\n", "\n", "A: b\r\r\n", "A: b\r\n\n", "A: b\rC: d\r\n\r\n", "\r\r\n"] {
            for piece in [1, 2, 100] {
                let text = format!("1\r\na\r\n0\r\n{trailers}GET / HTTP/1.1\r\n\r\n");
                assert!(ends(chunks, &text, piece).is_err(), "{trailers:?} {piece}");
            }
        }
    }
}
