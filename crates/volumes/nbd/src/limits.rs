//! Limits of what a client may have. Room is made for what has arrived, never for what was announced, but for the
//! payload of a single request.

use std::time::Duration;

/// A string: the name of an export, a query, the text of an error.
pub const NAME_BYTES_MAX: usize = 4096;

/// The data of an option that is looked at. A longer option is passed over and refused.
pub const OPTION_BYTES_MAX: usize = 16 * 1024;

/// Options of one handshake.
pub const OPTIONS_MAX: u32 = 128;

/// The time from a connection's beginning to the end of its handshake.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Connections in their handshake at a time. A newer one ends the oldest, so silent connections keep no client out.
pub const HANDSHAKES_MAX: usize = 64;

/// The bytes that a request reads or writes. The specification asks for no less.
pub const PAYLOAD_BYTES_MAX: u32 = 32 * 1024 * 1024;

/// Requests of one connection that were read and whose replies have not left yet.
pub const OUTSTANDING_MAX: usize = 1024;

/// The payloads of those. A connection is read on as long as it is below, so it may have one request more.
pub const OUTSTANDING_BYTES_MAX: usize = PAYLOAD_BYTES_MAX as usize;

/// Extents of one reply; a client asks again where the list ends.
pub const EXTENTS_MAX: usize = 4096;

/// Connections with an export at a time, unless something else is said.
pub const CONNECTIONS_MAX: usize = 64;

/// Threads of one connection. All but one of them wait for a device.
pub const CREW_MAX: usize = 16;

/// The time without a read after which a client may have hung up behind the requests that it has sent.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(1);

/// The interval at which a thread that waits asks for its client.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The silence after which a TCP client is probed, and how often. Its connection ends when it does not answer.
pub(super) const PROBE_AFTER: Duration = Duration::from_secs(60);
pub(super) const PROBE_EVERY: Duration = Duration::from_secs(10);
pub(super) const PROBES_MAX: u32 = 6;

/// Bytes that are read from a socket at a time.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// Memory that is received into comes in multiples of this.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;

/// Memory that a server keeps to receive into while nobody uses it.
pub(super) const BUFFERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Replies that leave before those behind them in the same batch are there.
pub(super) const SEND_BYTES: usize = 256 * 1024;

/// The time after which replies leave also before the rest of their batch: what a few system calls take.
pub(super) const SEND_AFTER: Duration = Duration::from_micros(20);

/// The text of an error is short enough for any client.
pub(super) const TEXT_BYTES_MAX: usize = 256;

const _: () = assert!(2 * (NAME_BYTES_MAX + 8) < OPTION_BYTES_MAX, "an option has room for a name and a query");
const _: () = assert!(SEND_BYTES < OUTSTANDING_BYTES_MAX, "replies leave before they stop the reading");
