//! One connection of a client, from its first byte to its end.

use crate::activity::{Activity, Observed, Overdue, UnderWay};
use crate::answered::Answered;
use crate::chunks::Checked;
use crate::early_hints::Hinted;
use crate::handshake::{HandshakeFailure, Handshakes};
use crate::limits::{
    CONNECTION_WINDOW_BYTES, HEAD_BYTES_MAX, Limits, READ_AHEAD_BYTES_MAX, RESET_STREAMS_MAX, STREAM_BUFFER_BYTES_MAX,
    STREAM_WINDOW_BYTES, STREAMS_MAX,
};
use crate::service::{Answer, ConnectionEvent, Service};
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::Service as HyperService;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The first bytes of an HTTP/2 client. No request of HTTP/1.1 begins like that.
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The state that the connections of a thread share.
pub(crate) struct Thread<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) answer: S::Answer,
    pub(crate) handshakes: Handshakes,
}

/// Serves a client's connection over TLS, if its handshake comes to an end.
pub(crate) async fn serve_over_tls<F: Service>(
    thread: Arc<Thread<F>>,
    tls: &TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    activity: Arc<Activity>,
    stop: watch::Receiver<bool>,
) {
    let (limits, mut stopped) = (thread.service.limits(), stop.clone());
    let failed = |failure| thread.service.record(ConnectionEvent::HandshakeFailed(failure));
    let accepted = tokio::select! {
        accepted = thread.handshakes.accept(tls, stream, limits.handshake) => accepted,
        () = activity.displaced() => return failed(HandshakeFailure::Displaced),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
    };
    match accepted {
        Ok(stream) => {
            let is_http2_agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve(thread, stream, is_http2_agreed, peer, activity, stop).await;
        }
        Err(failure) => failed(failure),
    }
}

/// Serves a client's connection until it ends: by the client, by a limit, or because the server stops. It keeps the
/// limits that it began with; each request goes by the settings of its own time.
pub(crate) async fn serve<F, S>(
    thread: Arc<Thread<F>>,
    stream: S,
    is_http2_agreed: bool,
    peer: SocketAddr,
    activity: Arc<Activity>,
    stop: watch::Receiver<bool>,
) where
    F: Service,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = thread.service.limits();
    thread.service.record(ConnectionEvent::Begun);
    let stream = Observed::new(stream, activity.clone());
    let mut stopped = stop.clone();
    let begun = tokio::select! {
        begun = timeout(limits.idle, Begun::read(stream)) => begun,
        () = activity.displaced() => return thread.service.record(ConnectionEvent::Ended(Overdue::Displaced)),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
    };
    let Ok(Ok(stream)) = begun else { return };
    let is_http2 = stream.is_http2();
    // A client that has agreed on HTTP/2 does not get to speak something else.
    if is_http2_agreed && !is_http2 {
        return;
    }
    activity.speaks(is_http2);
    let service = thread.service.clone();
    let requests = Requests { thread, peer, activity: activity.clone() };
    let ended = |overdue| service.record(ConnectionEvent::Ended(overdue));
    if is_http2 {
        let connection = http2_server().serve_connection(TokioIo::new(stream), requests);
        drive(connection, &limits, ended, &activity, stop).await;
    } else {
        let io = TokioIo::new(Checked::new(Hinted::new(stream, activity.clone()), activity.clone()));
        let connection = http1_server().serve_connection(io, requests).with_upgrades();
        drive(connection, &limits, ended, &activity, stop).await;
    }
}

fn http1_server() -> http1::Builder {
    let mut server = http1::Builder::new();
    // The timer of `drive` sees to the timeouts.
    server.header_read_timeout(None).max_header_size(HEAD_BYTES_MAX).max_buf_size(READ_AHEAD_BYTES_MAX);
    server
}

fn http2_server() -> http2::Builder<TokioExecutor> {
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(STREAM_BUFFER_BYTES_MAX);
    server
}

/// A connection that can be told to come to its end.
trait Graceful: Future {
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<F, I> Graceful for http1::UpgradeableConnection<I, Requests<F>>
where
    F: Service,
    I: Read + Write + Unpin + Send + 'static,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<F, I> Graceful for http2::Connection<I, Requests<F>, TokioExecutor>
where
    F: Service,
    I: Read + Write + Unpin + Send + 'static,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Drives a connection to its end.
async fn drive<C: Graceful>(
    connection: C,
    limits: &Limits,
    ended: impl Fn(Overdue),
    activity: &Activity,
    mut stop: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    let mut stopped = pin!(async move { stop.wait_for(|is_stopped| *is_stopped).await.is_ok() });
    let (mut is_stopping, mut is_ending) = (false, false);
    let mut look = pin!(sleep(limits.head.min(limits.stall)));
    let mut is_registered = false;
    poll_fn(|cx| {
        if !is_registered {
            is_registered = true;
            activity.register(cx);
        }
        // An error is the client's business, and it has gone.
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        if !is_ending && activity.is_displaced() {
            ended(Overdue::Displaced);
            connection.as_mut().graceful_shutdown();
            // An HTTP/2 client is told, if its socket has room.
            let _ = connection.as_mut().poll(cx);
            return Poll::Ready(());
        }
        while look.as_mut().poll(cx).is_ready() {
            match activity.overdue(limits) {
                Ok(left) => look.as_mut().reset(Instant::now() + left),
                // The client is told, if there is a way to, and has the time to hear it.
                Err(Overdue::Idle) if !is_ending => {
                    is_ending = true;
                    ended(Overdue::Idle);
                    connection.as_mut().graceful_shutdown();
                    if connection.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    look.as_mut().reset(Instant::now() + limits.head);
                }
                Err(overdue) => {
                    if !is_ending {
                        ended(overdue);
                    }
                    return Poll::Ready(());
                }
            }
        }
        Poll::Pending
    })
    .await;
}

/// The service that hyper hands the requests of a connection to.
struct Requests<F: Service> {
    thread: Arc<Thread<F>>,
    peer: SocketAddr,
    activity: Arc<Activity>,
}

impl<F: Service> HyperService<Request<Incoming>> for Requests<F> {
    type Response = Response<Answered<<F::Answer as Answer>::Body>>;
    type Error = Infallible;
    type Future = <F::Answer as Answer>::Answering;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if !request.body().is_end_stream() && request.body().size_hint().exact().is_none() {
            self.activity.begins_chunks();
        }
        let under_way = UnderWay::begin(self.activity.clone());
        self.thread.answer.answer(self.peer, under_way, request)
    }
}

/// A connection whose first bytes have been read, to see which HTTP it speaks.
struct Begun<S> {
    first: [u8; HTTP2_PREFACE.len()],
    filled: usize,
    /// How many of them have been given on.
    given: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Reads until it is clear.
    async fn read(stream: S) -> io::Result<Self> {
        let mut begun = Self { first: [0; HTTP2_PREFACE.len()], filled: 0, given: 0, stream };
        while !begun.is_http2() && HTTP2_PREFACE.starts_with(&begun.first[..begun.filled]) {
            let read = poll_fn(|cx| {
                let mut into = ReadBuf::new(&mut begun.first[begun.filled..]);
                ready!(Pin::new(&mut begun.stream).poll_read(cx, &mut into))?;
                Poll::Ready(Ok::<_, io::Error>(into.filled().len()))
            });
            match read.await? {
                0 => break,
                count => begun.filled += count,
            }
        }
        Ok(begun)
    }
}

impl<S> Begun<S> {
    fn is_http2(&self) -> bool {
        self.first[..self.filled] == *HTTP2_PREFACE
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let left = &this.first[this.given..this.filled];
        if left.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        }
        let count = left.len().min(into.remaining());
        into.put_slice(&left[..count]);
        this.given += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
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
