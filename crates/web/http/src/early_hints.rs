//! Early hints: responses with a status of 1xx that are sent before the response (RFC 9110, section 15.2; RFC
//! 8297).
//!
//! hyper receives them, and cannot send any. On HTTP/1.1 this module writes them to the connection while hyper waits
//! for the answer to a request and its earlier bytes have left. On HTTP/2 only hyper could send them, so they are not
//! passed on there.

use crate::activity::Activity;
use bytes::{Buf, BytesMut};
use http::{HeaderMap, StatusCode};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Where the hints for a request go.
#[derive(Clone, Debug)]
pub struct HintsTo {
    /// A connection that has ended has no use for them.
    activity: Weak<Activity>,
    /// The number of the request on its connection.
    number: u64,
}

impl HintsTo {
    /// For the request that is under way on an HTTP/1.1 connection.
    pub fn new(activity: &Arc<Activity>) -> Self {
        Self { activity: Arc::downgrade(activity), number: activity.number() }
    }

    /// Passes a response on that came before the response.
    pub fn pass(&self, status: StatusCode, fields: &HeaderMap) {
        let Some(activity) = self.activity.upgrade() else { return };
        // The connection may be at another request by now.
        if activity.number() != self.number || activity.idle_since().is_some() {
            return;
        }
        activity.hints.add(status, fields);
        activity.wake();
    }
}

/// A connection of HTTP/1.1 on which hints are sent.
#[derive(Debug)]
pub(crate) struct Hinted<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Whether everything that hyper has written has left.
    is_flushed: bool,
    /// A part of hints has left, and the rest has to before anything else does.
    sending: BytesMut,
}

impl<S: AsyncWrite + Unpin> Hinted<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_flushed: true, sending: BytesMut::new() }
    }

    /// Sends hints, if there are any and this is the time for them.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_flushed && self.sending.is_empty() {
            self.sending = self.activity.hints.take();
        }
        self.poll_send_rest(cx)
    }

    fn poll_send_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sending.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.sending.is_empty() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.sending))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sending.advance(count);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// hyper writes: hints that are not on their way by now come too late.
    fn poll_begin_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_flushed = false;
        drop(self.activity.hints.take());
        self.poll_send_rest(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Hinted<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper reads while it waits for an answer, to see whether the client is still there.
        if let Poll::Ready(Err(error)) = this.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut this.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hinted<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_begin_write(cx))?;
        Pin::new(&mut this.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_begin_write(cx))?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send_rest(cx))?;
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        this.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
