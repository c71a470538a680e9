//! Requests, from the bytes of a client to operations on a device.
//!
//! A request that makes no sense is refused by an error of its own and the next is read behind it, payload and all;
//! only a stream that is out of step ends the connection. Requests are refused in this order:
//!
//! | request | error |
//! |---|---|
//! | an unknown command, an unknown flag, a flag of another command or of what was not agreed on | EINVAL |
//! | extents without the context for them | EINVAL |
//! | a write of any kind to a read-only device | EPERM |
//! | a flush of a range; any other request of no bytes | EINVAL |
//! | a range that ends beyond the device | ENOSPC for writes, EINVAL for others |
//! | a range off the smallest block | EINVAL |
//! | a payload of more than 32 MiB | EINVAL |
//!
//! Requests without a payload may be of any length, also beyond the largest block: the specification lets a server
//! refuse those, and the kernel's client trims by more.

use super::handshake::Session;
use super::limits::PAYLOAD_BYTES_MAX;
use super::numbers::{REQUEST_BYTES, REQUEST_MAGIC, command, flag};
use crate::device::{Errno, Form, Geometry, Operation, Request, Ticket};
use bytes::Bytes;

/// The next item of a client's stream.
#[derive(Debug)]
pub enum Item {
    /// Nothing, until this many more bytes have arrived.
    More(usize),
    /// A request.
    Request(Request),
    /// A request that is not for the device, and why.
    Refused(Ticket, Errno, &'static str),
    /// The client has no more requests.
    Disconnect,
    /// The stream continues with something that is no request, so nothing behind it can be read.
    OutOfStep,
}

/// Reads the requests of a session.
#[derive(Debug)]
pub struct Requests {
    session: Session,
    /// The payload of a refused write that has yet to be passed over.
    passing: u32,
}

/// A request's fields.
struct Head {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Requests {
    /// Reads the requests of a session from their beginning.
    pub fn new(session: Session) -> Self {
        Self { session, passing: 0 }
    }

    /// How many bytes the next item needs beyond the input, at least.
    pub fn missing(&self, geometry: &Geometry, input: &[u8]) -> usize {
        if self.passing > 0 {
            return usize::from(input.is_empty());
        }
        let Some(head) = input.first_chunk() else { return REQUEST_BYTES - input.len() };
        let payload = Head::read(head).filter(|head| head.command == command::WRITE);
        let payload = payload.filter(|head| self.operation(head, geometry).is_ok()).map_or(0, |head| head.len as usize);
        (REQUEST_BYTES + payload).saturating_sub(input.len())
    }

    /// Takes the next item off the input. A payload is a slice of the input, not a copy.
    pub fn next(&mut self, geometry: &Geometry, input: &mut Bytes) -> Item {
        let passed = (self.passing as usize).min(input.len());
        let _ = input.split_to(passed);
        self.passing -= passed as u32;
        let missing = self.missing(geometry, input);
        if missing > 0 {
            return Item::More(missing);
        }
        let head = input.split_to(REQUEST_BYTES);
        let Some(head) = head.first_chunk().and_then(Head::read) else { return Item::OutOfStep };
        match self.operation(&head, geometry) {
            Ok(Operation::Write { offset, fua, .. }) => {
                let data = input.split_to(head.len as usize);
                Item::Request(self.request(&head, Operation::Write { offset, data, fua }))
            }
            Ok(operation) => Item::Request(self.request(&head, operation)),
            Err(_) if head.command == command::DISC => Item::Disconnect,
            Err((errno, why)) => {
                self.passing = if head.command == command::WRITE { head.len } else { 0 };
                Item::Refused(self.ticket(&head, 0), errno, why)
            }
        }
    }

    fn request(&self, head: &Head, operation: Operation) -> Request {
        let len = match operation {
            Operation::Read { len, .. } => len,
            Operation::Write { .. } | Operation::Extents { .. } => head.len,
            _ => 0,
        };
        Request { ticket: self.ticket(head, len), operation }
    }

    fn ticket(&self, head: &Head, len: u32) -> Ticket {
        let form = match head.command {
            _ if !self.session.structured => Form::Simple,
            command::READ if head.flags & flag::DF != 0 => Form::OneChunk,
            command::READ => Form::Chunks,
            command::BLOCK_STATUS if head.flags & flag::REQ_ONE != 0 => Form::OneExtent,
            command::BLOCK_STATUS => Form::Extents,
            _ => Form::Status,
        };
        Ticket { cookie: head.cookie, offset: head.offset, len, form }
    }

    /// The operation that a request asks for; of a write, without its bytes.
    fn operation(&self, head: &Head, geometry: &Geometry) -> Result<Operation, (Errno, &'static str)> {
        let Head { offset, len, .. } = *head;
        let fua = head.flags & flag::FUA != 0;
        let operation = match head.command {
            command::READ => Operation::Read { offset, len },
            command::WRITE => Operation::Write { offset, data: Bytes::new(), fua },
            command::FLUSH => Operation::Flush,
            command::TRIM => Operation::Trim { offset, len: len.into(), fua },
            command::CACHE => Operation::Cache { offset, len: len.into() },
            command::WRITE_ZEROES => Operation::Zero {
                offset,
                len: len.into(),
                may_trim: head.flags & flag::NO_HOLE == 0,
                fast: head.flags & flag::FAST_ZERO != 0,
                fua,
            },
            command::BLOCK_STATUS => {
                Operation::Extents { offset, len: len.into(), one: head.flags & flag::REQ_ONE != 0 }
            }
            _ => return Err((Errno::Invalid, "the command is not known here")),
        };
        self.check(head, geometry)?;
        Ok(operation)
    }

    fn check(&self, head: &Head, geometry: &Geometry) -> Result<(), (Errno, &'static str)> {
        let refuse = |is: bool, errno: Errno, why: &'static str| if is { Err((errno, why)) } else { Ok(()) };
        let writes = matches!(head.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        let carries = matches!(head.command, command::READ | command::WRITE);
        refuse(head.flags & !self.flags(head.command) != 0, Errno::Invalid, "the flags are not for this command")?;
        refuse(
            head.command == command::BLOCK_STATUS && !self.session.allocation,
            Errno::Invalid,
            "no metadata context was chosen for this export",
        )?;
        refuse(writes && geometry.read_only, Errno::NotPermitted, "the export is read-only")?;
        if head.command == command::FLUSH {
            return refuse(head.offset != 0 || head.len != 0, Errno::Invalid, "a flush has no range");
        }
        refuse(head.len == 0, Errno::Invalid, "the range is empty")?;
        let is_within = head.offset.checked_add(head.len.into()).is_some_and(|end| end <= geometry.size);
        let beyond = if matches!(head.command, command::WRITE | command::WRITE_ZEROES) {
            Errno::NoSpace
        } else {
            Errno::Invalid
        };
        refuse(!is_within, beyond, "the range ends beyond the export")?;
        let is_aligned = (head.offset | u64::from(head.len)).is_multiple_of(geometry.block_min.into());
        refuse(!is_aligned, Errno::Invalid, "the range is off the smallest block")?;
        refuse(carries && head.len > PAYLOAD_BYTES_MAX, Errno::Invalid, "the range is larger than the largest block")
    }

    /// The flags that a command may have. Durability may be asked of any.
    fn flags(&self, command: u16) -> u16 {
        flag::FUA
            | match command {
                command::READ if self.session.structured => flag::DF,
                command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
                command::BLOCK_STATUS => flag::REQ_ONE,
                _ => 0,
            }
    }
}

impl Head {
    /// The fields, or nothing if they are not a request's.
    fn read(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (command, rest) = rest.split_first_chunk()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (len, _) = rest.split_first_chunk()?;
        (u32::from_be_bytes(*magic) == REQUEST_MAGIC).then_some(Self {
            flags: u16::from_be_bytes(*flags),
            command: u16::from_be_bytes(*command),
            cookie: u64::from_be_bytes(*cookie),
            offset: u64::from_be_bytes(*offset),
            len: u32::from_be_bytes(*len),
        })
    }
}
