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
//! All of that knows no family of messages. A family is an enum of messages for each direction ([`family!`]), whose
//! messages are structs with their bytes ([`messages!`]), and has a [`Codec`] for each end of its links: the kinds that
//! are heard there, by number, with their limits, and the way between a message and its frame. It belongs to the crate
//! of the machines that say it.
//!
//! ```
//! use framing::{Batch, Codec, End, Inbox, Outbox, family, messages};
//! use machine::{Goodbye, Parcel};
//!
//! messages! {
//!     /// Are you there?
//!     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//!     pub struct Ping {
//!         /// Comes back in the answer.
//!         pub nonce: u64,
//!     }
//! }
//!
//! family! {
//!     of "listening";
//!
//!     /// The messages to a listener.
//!     pub enum ToListener, heard by "listener", in order {
//!         /// Are you there?
//!         1 Ping,
//!         /// Ends the session, with the reason.
//!         39 Goodbye,
//!     }
//! }
//!
//! const EITHER: &dyn Codec = End::<ToListener, ToListener>::CODEC;
//! let ping = || Parcel::new(ToListener::from(Ping { nonce: 7 }));
//! let (mut out, mut batch) = (Outbox::new(EITHER), Batch::default());
//! out.push(&ping()).unwrap();
//! out.next(&mut batch);
//! let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
//!
//! let (mut inbox, mut arrived) = (Inbox::within_session(EITHER), &bytes[..]);
//! assert_eq!(inbox.next(&mut arrived), Ok(Some(ping())));
//! assert_eq!(inbox.next(&mut arrived), Ok(None));
//! ```
#![no_std]

extern crate alloc;

mod arrival;
mod batch;
mod body;
mod codec;
mod error;
mod family;
pub mod field;
mod gate;
mod goodbye;
mod header;
mod inbox;
mod layout;
mod length;
mod magic;
mod message;
mod name;
mod outbox;
mod pieces;
mod preface;
mod status;

pub use batch::Batch;
#[doc(hidden)]
pub use bytes::Bytes;
pub use codec::{Codec, Direction, End, Known, codec_of, upstream};
pub use error::WireError;
pub use field::{Check, Checked, Data, Field, FieldLayout, InOrder, Keyed, Ordered, Plain, Rest, Tail, Text};
pub use header::{HEADER_BYTES, Header, PIECE};
pub use inbox::Inbox;
pub use layout::{Layout, Meta, Reader};
pub use length::Limits;
#[doc(hidden)]
pub use machine::{Goodbye, Message, Pace};
pub use magic::{MAGIC, PROTOCOL};
pub use name::Name;
pub use outbox::{Outbox, frames_of, preface_frame};
pub use preface::{PREFACE, Preface, Wants};
pub use status::{Answer, NODE, OPERATOR};
