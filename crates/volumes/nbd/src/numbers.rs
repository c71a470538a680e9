//! The protocol's numbers. All of them are big-endian on the wire.

/// The first bytes of a server: `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Begins the newstyle handshake and every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// The bytes of a request before its payload: magic, flags, command, cookie, offset, length.
pub const REQUEST_BYTES: usize = 28;

/// The metadata context that says which blocks are there.
pub const ALLOCATION: &str = "base:allocation";
/// The number that this server gives it.
pub const ALLOCATION_ID: u32 = 1;

/// The flags with which a server and a client begin.
pub mod hello {
    /// Options are replied to.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No zeros follow the answer to [`super::option::EXPORT_NAME`].
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options: requests of the handshake.
pub mod option {
    /// Begins the transmission with an export.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Lists the exports.
    pub const LIST: u32 = 3;
    /// Begins TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Asks about an export, and begins the transmission with it.
    pub const GO: u32 = 7;
    /// Wants replies in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Lists metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to an option.
pub mod reply {
    /// Success, and the last reply.
    pub const ACK: u32 = 1;
    /// An export of a list.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in everything that follow.
    pub const ERROR: u32 = 1 << 31;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = ERROR + 1;
    /// The option makes no sense.
    pub const ERR_INVALID: u32 = ERROR + 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Subjects of an INFO reply.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// The name by which the server knows it.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Abilities of an export.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Takes [`super::command::FLUSH`].
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Takes [`super::flag::FUA`].
    pub const SEND_FUA: u16 = 1 << 3;
    /// It turns.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Takes [`super::command::TRIM`].
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Takes [`super::command::WRITE_ZEROES`].
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Takes [`super::flag::DF`].
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush of one connection covers the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Takes [`super::command::CACHE`].
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Takes [`super::flag::FAST_ZERO`].
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes.
    pub const WRITE: u16 = 1;
    /// Ends the connection when all is done.
    pub const DISC: u16 = 2;
    /// Makes durable what was written.
    pub const FLUSH: u16 = 3;
    /// Returns what is not needed.
    pub const TRIM: u16 = 4;
    /// Returns what will be read.
    pub const CACHE: u16 = 5;
    /// Writes zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Asks which blocks are there.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1;
    /// Zeros are no hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// A read in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeros only where that is quick.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of a structured reply.
pub mod chunk {
    /// The flag of the last chunk.
    pub const DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Bytes with their offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros: an offset and a length.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// The flags of an extent in `base:allocation`.
pub mod extent {
    /// It takes no room.
    pub const HOLE: u32 = 1;
    /// It reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}
