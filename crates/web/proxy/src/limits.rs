//! The limits of the proxy: on what a client or an origin can make grow, and on how long it may take.
//!
//! The constants bound what HTTP's formats leave open, and are the same for every proxy; those of clients' connections
//! are in `serving::limits`. [`Limits`] is set when a proxy is made, in part by its
//! operator's options.

pub use serving::limits::HEAD_BYTES_MAX;
use std::time::Duration;

/// Lines of fields of one request head. It is what hyper's parser has room for on its stack; a request with more is
/// answered with 431.
pub const FIELDS_MAX: usize = 100;

/// The same of the head of an origin's response, which may name what it depends on a line each. A request whose
/// response has more is answered with 502.
pub const ORIGIN_FIELDS_MAX: usize = 1024;

/// The bytes of the head of an origin's response.
pub const ORIGIN_HEAD_BYTES_MAX: usize = 128 * 1024;

/// The bytes of a request's path and query: longer ones are answered with 414.
pub const PATH_BYTES_MAX: usize = 8 * 1024;

/// The bytes of a request's authority: the longest name that DNS has, and a port.
pub const AUTHORITY_BYTES_MAX: usize = 253 + ":65535".len();

/// The bytes of one request's body that are collected in memory, and of each step of one in a file.
pub const BODY_MEMORY_BYTES_MAX: usize = 64 * 1024;

/// Names of dropped request fields that are counted apart, and noted.
pub const DROPPED_NAMES_MAX: usize = 64;

/// How often a request is sent again when a pooled connection turns out to be closed by the origin.
pub const RETRIES_MAX: u32 = 1;

/// The bytes of one batch of invalidations.
pub const ADMIN_BODY_BYTES_MAX: usize = 1024 * 1024;

/// The names and URLs of one batch of invalidations.
pub const ADMIN_NAMES_MAX: usize = 4096;

/// Stored responses that an answer to an operator reports.
pub const EXPLAINED_ENTRIES_MAX: usize = 1000;

/// Dependencies of each that it reports.
pub const EXPLAINED_DEPENDENCIES_MAX: usize = 256;

/// The memory for responses that wait to be written to disk, in bytes. Beyond, those that leave memory are not kept.
pub const UNWRITTEN_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Limits that an operator may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of clients at a time. Beyond, those that have been idle for longest make room for a new one, which
    /// waits where none is idle.
    pub connections: usize,
    /// Connections of one client address at a time, or of one network of IPv6 (/64). Further ones are closed.
    pub connections_per_address: Option<usize>,
    /// Requests at the origin at a time. Beyond, a request waits for one of them to end, as long as for a connection.
    pub origin_requests: usize,
    /// Requests that wait for that at a time. Beyond, a request is told to come again at once.
    pub origin_waiting: usize,
    /// Websockets and event streams that are open at a time. They do not count among the requests at the origin.
    pub long_lived: usize,
    /// Connections to the origin that are kept open while nobody uses them, on each thread.
    pub origin_idle_connections: usize,
    /// How long they are kept. An application's server closes its idle connections after two to five seconds in most
    /// cases, and a request that is on its way then is lost; one with a body is not sent again.
    pub origin_idle: Duration,
    /// How long a client may take for its TLS handshake.
    pub handshake: Duration,
    /// How long a client's connection is kept open without a request.
    pub idle: Duration,
    /// How long a client may take to send the head of a request, from its first byte.
    pub head: Duration,
    /// How long a client may pause while it sends a body, or while it reads a response.
    pub stall: Duration,
    /// The rate at which a client has to send a body, in bytes a second. A slower one is cut off when it has fallen
    /// behind by `stall`.
    pub upload_bytes_per_s: u64,
    /// The memory for bodies of requests that are collected before the origin is asked, in bytes.
    pub upload_memory_bytes: u64,
    /// The bytes of bodies in files, which do not fit into memory; also the largest body that is accepted.
    pub upload_file_bytes: u64,
    /// The number of those files.
    pub upload_files: u64,
    /// How long a connection to the origin may take to open, and its TLS handshake once more.
    pub connect: Duration,
    /// How long the origin may take to begin its response, and how long it may pause in the middle.
    pub origin: Duration,
    /// How long the hub may take to say that no cache answers without a change that has been made. Then its client is
    /// told that this is not known; the hub is notified of the change when it is there again.
    pub hub: Duration,
    /// How long a connection that was switched to another protocol, such as a WebSocket, may be silent.
    pub tunnel: Duration,
    /// How long requests that are under way may take to end when the proxy is told to stop.
    pub stop: Duration,
    /// The memory for stored responses, in bytes: bodies, fields and what is kept about them.
    pub stored_bytes: usize,
    /// The largest response that is stored, in bytes of its body.
    pub stored_response_bytes: usize,
    /// The memory for bodies that are being stored, or were and are not read yet by the clients that they came for; in
    /// bytes, beside `stored_bytes`. Beyond, a response is passed and not stored.
    pub collected_bytes: usize,
}

impl Limits {
    /// Those that a connection keeps.
    pub(crate) fn of_connections(&self) -> serving::Limits {
        serving::Limits {
            per_address: self.connections_per_address,
            handshake: self.handshake,
            idle: self.idle,
            head: self.head,
            stall: self.stall,
            stop: self.stop,
        }
    }

    /// The largest body of a request that is collected.
    pub(crate) fn upload_bytes_max(&self) -> u64 {
        self.upload_file_bytes.max(BODY_MEMORY_BYTES_MAX as u64)
    }
}

impl Default for Limits {
    fn default() -> Self {
        let serving::Limits { per_address, handshake, idle, head, stall, stop } = serving::Limits::default();
        Self {
            connections: 16 * 1024,
            connections_per_address: per_address,
            origin_requests: 1024,
            origin_waiting: 4096,
            long_lived: 4096,
            origin_idle_connections: 64,
            origin_idle: Duration::from_millis(1500),
            handshake,
            idle,
            head,
            stall,
            upload_bytes_per_s: 500,
            upload_memory_bytes: 64 << 20,
            upload_file_bytes: 1 << 30,
            upload_files: 1024,
            connect: Duration::from_secs(5),
            origin: Duration::from_secs(60),
            hub: Duration::from_secs(30),
            tunnel: Duration::from_secs(600),
            stop,
            stored_bytes: 256 << 20,
            stored_response_bytes: 16 << 20,
            collected_bytes: 128 << 20,
        }
    }
}

const _: () = {
    assert!(PATH_BYTES_MAX + AUTHORITY_BYTES_MAX < HEAD_BYTES_MAX, "a longest target fits into a head");
};
