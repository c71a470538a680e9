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
//! Input is hostile: every length and count is checked before anything is kept for it, memory grows with the bytes that
//! have arrived and not with those that were announced, and every refusal has a name ([`WireError`]).
//!
//! # Families
//! All of that knows no family of messages. A family has a [`Codec`] for each end of its links: the kinds that are
//! heard there, by number, with their limits, the messages that may come first, and the way between a message and its
//! frame. A family is a module like [`store`], here or in another crate.
//!
//! ```
//! use protocol::{Parcel, Ping, ToServer};
//! use wire::{Batch, Inbox, Outbox, store};
//!
//! let ping = || Parcel::new(ToServer::Ping(Ping { nonce: 7 }));
//! let (mut out, mut batch) = (Outbox::new(store::CLIENT), Batch::default());
//! out.push(&ping()).unwrap();
//! out.next(&mut batch);
//! let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
//!
//! let mut inbox = Inbox::within_session(store::SERVER);
//! let mut arrived = &bytes[..];
//! assert_eq!(inbox.next(&mut arrived), Ok(Some(ping())));
//! assert_eq!(inbox.next(&mut arrived), Ok(None));
//! ```
#![no_std]

extern crate alloc;

mod arrival;
mod batch;
mod body;
pub mod caches;
mod codec;
mod error;
mod family;
pub mod field;
mod gate;
mod goodbye;
mod header;
pub mod homes;
mod inbox;
mod layout;
mod length;
pub mod look_ups;
mod magic;
mod outbox;
mod pieces;
pub mod store;
pub mod volume_home;
pub mod volumes;

pub use batch::Batch;
pub use codec::{Codec, Direction, End, Known};
pub use error::WireError;
pub use header::{HEADER_BYTES, Header, PIECE};
pub use inbox::Inbox;
pub use layout::{Layout, Meta, Reader};
pub use length::Limits;
pub use magic::MAGIC;
pub use outbox::{Outbox, frames_of};
