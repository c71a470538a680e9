//! All limits of the helper in one place: on what a server, or somebody who says to be one, can make grow.

use std::time::Duration;

/// The bytes of a key.
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// The bytes of all keys together. Beyond, the keys that are asked for least are forgotten.
pub const KEYS_BYTES_MAX: usize = 256 << 20;

/// The responses with different dependencies that are stored under one version of a key, as a server has them whose
/// responses differ by `Vary`. One more gives the key a new version.
pub const KINDS_PER_VERSION_MAX: usize = 8;

/// Connections at a time. Beyond, a new one waits to be accepted until another ends.
pub const CONNECTIONS_MAX: usize = 4096;

/// The bytes of a request's body: the most names that a response or an update has, spelt out.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The bytes of a request's head.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// The changes that are on their way to the hub at a time; further ones are refused.
pub const CHANGES_MAX: usize = 1024;

/// How long a connection may be without a request, and how long the head of one may take. It is longer than the time
/// for which servers keep connections that they do not use, so that they close them first.
pub const IDLE: Duration = Duration::from_secs(300);

/// How long the body of a request may take.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How long the hub may take to say that no cache answers without a change. It is notified of it later all the same.
pub const HUB_WITHIN: Duration = Duration::from_secs(30);

/// How long requests that are under way may take to end when the helper is told to stop.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);

const _: () = assert!(KEY_BYTES_MAX < HEAD_BYTES_MAX, "a longest key fits into a head");
