//! The limits of connections: on what a client can make grow, and on how long it may take.
//!
//! The constants bound what HTTP's formats leave open, and are the same for every front end. [`Limits`] are set by the
//! front end.

use std::time::Duration;

/// The bytes of one request head on HTTP/1.1, and of a decoded list of fields on HTTP/2.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// The bytes that are read ahead of one HTTP/1.1 connection.
pub const READ_AHEAD_BYTES_MAX: usize = 128 * 1024;

/// Requests that one HTTP/2 connection may have under way.
pub const STREAMS_MAX: u32 = 128;

/// Streams that a client has reset and whose requests are not finished yet: beyond, the connection ends. It is what
/// keeps a client from having work started and dropped in a loop.
pub const RESET_STREAMS_MAX: usize = 32;

/// The bytes that an HTTP/2 client may send on one stream before it has to wait.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// The bytes that an HTTP/2 client may send on all streams of a connection before it has to wait.
pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The bytes that are buffered for one HTTP/2 stream whose client does not read.
pub const STREAM_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The bytes of a response that an HTTP/2 stream is given at a time. Each time is the client's progress: one that takes
/// less than this in [`Limits::stall`] counts as one that does not read.
pub const STREAM_STEP_BYTES_MAX: usize = 16 * 1024;

/// TLS handshakes of clients that a thread has under way. One more displaces the oldest.
pub const HANDSHAKES_MAX: usize = 1024;

/// Idle connections that are closed at a time, to make room.
pub const DISPLACED_MAX: usize = 32;

/// The limits of a connection. A connection keeps those that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one client address at a time, or of one network of IPv6 (/64). Further ones are closed.
    pub per_address: Option<usize>,
    /// How long a client may take for its TLS handshake.
    pub handshake: Duration,
    /// How long a client's connection is kept open without a request.
    pub idle: Duration,
    /// How long a client may take to send the head of a request, from its first byte.
    pub head: Duration,
    /// How long a client may pause while it reads a response.
    pub stall: Duration,
    /// How long requests that are under way may take to end when the server is told to stop.
    pub stop: Duration,
}

impl Default for Limits {
    /// Times that a client on a slow line keeps, and any number of connections of one address.
    fn default() -> Self {
        Self {
            per_address: None,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            stop: Duration::from_secs(10),
        }
    }
}

const _: () = {
    assert!(HEAD_BYTES_MAX < READ_AHEAD_BYTES_MAX, "a largest head can be read ahead");
    assert!(STREAM_WINDOW_BYTES <= CONNECTION_WINDOW_BYTES);
};
