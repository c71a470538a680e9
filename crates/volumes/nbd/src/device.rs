//! Devices, which a block server serves, and how the two talk: requests go in by batches, answers come back in any
//! order.
//!
//! ```text
//!    connection's thread            device                     any thread
//!      read a batch  ----submit---->  carry out what is quick
//!                    <----done------  its answers
//!                    <----stalls----  about to wait: others read on     (the same thread leads a flush)
//!                    <----done------  the rest                   <---- or a thread of the device's own
//!                    <----send------  they leave
//! ```
//! A lone request is carried out and answered by the thread that has read it. A device that must wait for a disk or a
//! peer says so first ([`Replies::stalls`]): another thread then reads the requests that follow, and the one that waits
//! answers for everything that its flush covered. So no request is handed from thread to thread, and none waits for a
//! flush that it does not need.

use bytes::Bytes;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A device of blocks: a file, memory, a cache over a home.
///
/// Requests that are under way at the same time have no order among them, whether in one batch or not. A flush covers
/// every write that was answered before the flush was submitted, whoever submitted that.
pub trait Device: Send + Sync {
    /// The size of the device and what it can do. The size may change; the rest is for the life of the device.
    fn geometry(&self) -> Geometry;

    /// Takes every request of a batch and leaves it empty. Each is answered once, now or later, by any thread.
    ///
    /// Requests lie within the device and on its smallest block, writes come only to one that is not read-only, and no
    /// length is zero: the server sees to it.
    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>);

    /// Answers the requests of a client that has hung up which would else wait for long, as for a peer that is away.
    fn hung_up(&self, _: &Arc<dyn Replies>) {}
}

/// Takes the answers to requests of one connection.
pub trait Replies: Send + Sync {
    /// Answers a request. The answer leaves when the submission that is under way on this thread returns or stalls; a
    /// device that answers from anywhere else calls [`Replies::send`] after the last of several.
    fn done(&self, ticket: Ticket, outcome: Result<Answer, Errno>);

    /// Lets the answers leave. It never waits for a client that does not read them.
    fn send(&self);

    /// Says that this thread, which is inside of [`Device::submit`], is about to wait: what has been answered leaves,
    /// and another thread reads the requests that follow. A second call does nothing.
    fn stalls(&self);

    /// Whether the client is known to have hung up: its reads are unwanted, and none of its requests changes the device
    /// from then on ([`Permit`]). All requests are answered all the same.
    fn is_gone(&self) -> bool {
        false
    }

    /// Asks the system whether the client has hung up, for a request that has waited.
    fn has_hung_up(&self) -> bool {
        self.is_gone()
    }

    /// Begins a change of the device for a request, unless its client is known to have hung up. [`Permit`] calls it.
    fn begin_change(&self) -> bool {
        true
    }

    /// Ends a change that has begun.
    fn end_change(&self) {}
}

/// The permission to change the device for a request. A device asks for it when the request takes effect and not
/// earlier, and holds it until the effect is ordered before that of any later request. New clients are let in after it.
///
/// A request of a client that has hung up gets no permission: it has no effect, and its answer is an error. Otherwise
/// the writes of a killed client, which waited for room, would overwrite those of its successor.
pub struct Permit<'a>(&'a dyn Replies);

impl<'a> Permit<'a> {
    /// Asks for it.
    pub fn take(replies: &'a dyn Replies) -> Option<Self> {
        replies.begin_change().then_some(Self(replies))
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.end_change();
    }
}

/// A request to a device.
#[derive(Debug)]
pub struct Request {
    /// The right to answer it, once.
    pub ticket: Ticket,
    /// The work.
    pub operation: Operation,
}

/// Something that a device is asked to do. Offsets and lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads; the answer is [`Answer::Read`].
    Read {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
    },
    /// Writes.
    Write {
        /// Where.
        offset: u64,
        /// The bytes, as they came from the socket.
        data: Bytes,
        /// Whether they are durable before the answer.
        fua: bool,
    },
    /// Makes every write durable that was answered before.
    Flush,
    /// Says that the contents are no longer needed. They may stay, or read as zeros, in whole or in part.
    Trim {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Whether it is durable before the answer.
        fua: bool,
    },
    /// Writes zeros.
    Zero {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Whether the range may become a hole; otherwise later writes to it must find their room.
        may_trim: bool,
        /// Whether to fail with [`Errno::NotSupported`] where it would take as long as a write.
        fast: bool,
        /// Whether it is durable before the answer.
        fua: bool,
    },
    /// Says that a range will be read soon.
    Cache {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// Asks which ranges hold data; the answer is [`Answer::Extents`].
    Extents {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Whether one extent is enough.
        one: bool,
    },
}

/// The answer to a request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The bytes that were read, from the first on: the pieces make up the length that was asked for.
    Read(SmallVec<[Piece; 1]>),
    /// Extents one after the other from the offset on, at least one. They may end before the range does, or beyond it.
    Extents(Vec<Extent>),
}

impl Answer {
    /// A read whose bytes are in one place.
    pub fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Read(SmallVec::from_buf([Piece::Data(bytes.into())]))
    }

    /// A read of zeros.
    pub fn zeros(len: u32) -> Self {
        Self::Read(SmallVec::from_buf([Piece::Zeros(len)]))
    }
}

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// So many zeros, which no one needs to send.
    Zeros(u32),
}

impl Piece {
    /// How many bytes it stands for.
    pub fn len(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Zeros(len) => (*len).into(),
        }
    }

    /// Whether it stands for none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A range that is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length in bytes; never 0.
    pub len: u64,
    /// Whether it takes no room, so that a write to it may find none.
    pub is_hole: bool,
    /// Whether it reads as zeros.
    pub is_zero: bool,
}

impl Extent {
    /// A range with contents.
    pub fn data(len: u64) -> Self {
        Self { len, is_hole: false, is_zero: false }
    }

    /// A range without any.
    pub fn hole(len: u64) -> Self {
        Self { len, is_hole: true, is_zero: true }
    }
}

/// The size of a device, and what it can do. Trims and zeros are taken by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its size in bytes.
    pub size: u64,
    /// The unit of offsets and lengths, a power of two of at most 64 KiB.
    pub block_min: u32,
    /// The unit of requests that need no read before the write, a power of two of at least 512.
    pub block_preferred: u32,
    /// Whether every write is refused.
    pub read_only: bool,
    /// Whether it turns: clients then keep their requests in order.
    pub rotational: bool,
}

impl Geometry {
    /// A device of this many bytes that can be written and takes requests of any length.
    pub fn new(size: u64) -> Self {
        Self { size, block_min: 1, block_preferred: 4096, read_only: false, rotational: false }
    }
}

/// Why a request failed. The numbers are the protocol's, and those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// The device is read-only.
    NotPermitted = 1,
    /// The device has failed.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// There is no room, or the range ends beyond the device.
    NoSpace = 28,
    /// It would take as long as a write, and that was not wanted.
    NotSupported = 95,
    /// The server is being stopped.
    Shutdown = 108,
}

impl Errno {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPermitted => "not permitted: the device is read-only",
            Self::Io => "input/output error",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space",
            Self::NotSupported => "not supported: it would be no faster than a write",
            Self::Shutdown => "the server is being stopped",
        })
    }
}

impl std::error::Error for Errno {}

/// The right to answer a request. It is used up by the answer, so none is answered twice.
#[derive(Debug)]
#[must_use = "a request that is not answered keeps its client waiting"]
pub struct Ticket {
    /// The number by which the client knows the request. Nothing says that a client's numbers are all different.
    pub cookie: u64,
    /// The range that the request is about.
    pub offset: u64,
    /// Its length.
    pub len: u32,
    /// The form that the answer takes on the wire.
    pub form: Form,
}

/// The form that the answer to a request takes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A simple reply; what was read follows it.
    #[default]
    Simple,
    /// Nothing follows success, and an error has a text.
    Status,
    /// The bytes that were read, in chunks of data and holes.
    Chunks,
    /// The bytes that were read, in one chunk.
    OneChunk,
    /// A list of extents.
    Extents,
    /// One extent, no longer than the request.
    OneExtent,
}
