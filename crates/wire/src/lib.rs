//! Bytes to messages and back; nothing else knows bytes.
//!
//! A frame is a header of sixteen bytes, a *meta* of fixed-layout little-endian fields, and a *body* of raw bytes: a
//! page's image, or the values of deltas one after the other. A message that is larger than a frame may be travels in
//! pieces, each a frame of its own, between which others pass. `docs/formats.md` draws each to the byte.
//!
//! Sending: [`Outbox::push`] turns messages into chunks of bytes, large images and values shared with the message and
//! not copied; [`Outbox::next`] gives what leaves next. Receiving: [`Inbox::next`] is fed bytes as they come and gives
//! messages; a body goes into a buffer of exactly its size, which the message then shares.
//!
//! What comes in is hostile: every length and count is checked before anything is kept for it, memory grows with the
//! bytes that have arrived and not with those that were announced, and every refusal has a name ([`WireError`]).
//!
//! ```
//! use protocol::{Message, Ping};
//! use wire::{Batch, End, Inbox, Outbox};
//!
//! let (mut out, mut batch) = (Outbox::new(), Batch::default());
//! out.push(&Message::Ping(Ping { nonce: 7 })).unwrap();
//! out.next(&mut batch);
//! let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
//!
//! let mut inbox = Inbox::within_session(End::Store);
//! let mut arrived = &bytes[..];
//! assert_eq!(inbox.next(&mut arrived), Ok(Some(Message::Ping(Ping { nonce: 7 }))));
//! assert_eq!(inbox.next(&mut arrived), Ok(None));
//! ```
#![no_std]

extern crate alloc;

mod arrival;
mod batch;
mod body;
mod commit;
mod error;
mod fetch;
mod field;
mod gate;
mod group;
mod header;
mod help;
mod inbox;
mod kind;
mod layout;
mod lease;
mod length;
mod magic;
mod notice;
mod outbox;
mod pieces;
mod place;
mod session;
mod status;

pub use batch::Batch;
pub use error::WireError;
pub use header::{HEADER_BYTES, Header};
pub use inbox::Inbox;
pub use kind::{End, Kind};
pub use length::Limits;
pub use magic::MAGIC;
pub use outbox::{Outbox, frames_of};
