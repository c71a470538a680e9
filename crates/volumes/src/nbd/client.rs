//! A client: one connection, any number of requests under way. For tests, measurements and tools; a file system on a
//! volume is the business of the kernel's client.

use super::listen::Address;
use super::numbers::{
    ALLOCATION, CHUNK_MAGIC, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_BYTES, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC,
    chunk, command, flag, hello, info, option, reply,
};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Bytes that are asked of the socket at a time.
const READ_BYTES: usize = 128 * 1024;

/// A reply that is longer is not believed.
const REPLY_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// An export, in a server's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Its size in bytes.
    pub size: u64,
    /// [`super::numbers::transmission`] flags.
    pub flags: u16,
    /// The smallest, the preferred and the largest block, if the server said so.
    pub blocks: Option<[u32; 3]>,
    /// Whether replies come in chunks.
    pub structured: bool,
    /// Whether extents can be asked for.
    pub allocation: bool,
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads; in one chunk or as the server likes.
    Read {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
        /// Whether in one chunk.
        whole: bool,
    },
    /// Writes.
    Write {
        /// Where.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// Whether it is durable before the reply.
        fua: bool,
    },
    /// Makes durable what was written.
    Flush,
    /// Says what is not needed.
    Trim {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
        /// Whether it is durable before the reply.
        fua: bool,
    },
    /// Writes zeros.
    Zero {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
        /// [`flag::NO_HOLE`], [`flag::FAST_ZERO`], [`flag::FUA`].
        flags: u16,
    },
    /// Says what will be read.
    Cache {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
    },
    /// Asks which blocks are there.
    Extents {
        /// Where.
        offset: u64,
        /// How much.
        len: u32,
        /// Whether one extent is enough.
        one: bool,
    },
}

/// The reply to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The number that the command was sent with.
    pub cookie: u64,
    /// The error, or 0.
    pub error: u32,
    /// The error's text, if there is one.
    pub text: String,
    /// The bytes that were read.
    pub data: Vec<u8>,
    /// Extents: length and [`super::numbers::extent`] flags.
    pub extents: Vec<(u32, u32)>,
    /// Chunks of data and of holes that the reply came in.
    pub chunks: (u32, u32),
}

/// Why there is no reply.
#[derive(Debug)]
pub enum ClientError {
    /// The connection.
    Io(io::Error),
    /// The server refused an option, with this number and text.
    Refused(u32, String),
    /// The server said what no server says.
    Malformed(&'static str),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection with the NBD server: {error}"),
            Self::Refused(kind, text) => write!(f, "the NBD server refuses, with {kind:#x}: {text}"),
            Self::Malformed(what) => write!(f, "the NBD server breaks the protocol: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Result<T> = std::result::Result<T, ClientError>;

/// A connection with an export.
#[derive(Debug)]
pub struct Client {
    socket: File,
    info: Info,
    output: Vec<u8>,
    input: Vec<u8>,
    at: usize,
    last_cookie: u64,
    under_way: HashMap<u64, UnderWay>,
}

/// A command whose reply has not come yet.
#[derive(Debug)]
struct UnderWay {
    offset: u64,
    reads: usize,
    reply: Reply,
}

impl Client {
    /// Connects to an export, with structured replies and extents where the server has them.
    pub fn connect(address: &Address, export: &str) -> Result<Self> {
        Self::connect_as(address, export, true)
    }

    /// The same, with or without structured replies.
    pub fn connect_as(address: &Address, export: &str, structured: bool) -> Result<Self> {
        let socket: OwnedFd = match address {
            Address::Unix(path) => UnixStream::connect(path)?.into(),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.into()
            }
        };
        let mut client = Self {
            socket: socket.into(),
            info: Info::default(),
            output: Vec::new(),
            input: Vec::with_capacity(READ_BYTES),
            at: 0,
            last_cookie: 0,
            under_way: HashMap::new(),
        };
        client.shake_hands(export, structured)?;
        Ok(client)
    }

    /// The export, in the server's words.
    pub fn info(&self) -> Info {
        self.info
    }

    /// Whether the export has a flag of [`super::numbers::transmission`].
    pub fn has(&self, flags: u16) -> bool {
        self.info.flags & flags == flags
    }

    fn shake_hands(&mut self, export: &str, structured: bool) -> Result<()> {
        let (magic, kind) = (self.take_u64()?, self.take_u64()?);
        let flags = self.take_u16()?;
        if magic != MAGIC || kind != OPTION_MAGIC || flags & hello::FIXED_NEWSTYLE == 0 {
            return Err(ClientError::Malformed("the greeting is not that of a fixed newstyle server"));
        }
        self.output.extend(u32::from(flags & (hello::FIXED_NEWSTYLE | hello::NO_ZEROES)).to_be_bytes());
        if structured {
            self.info.structured = self.option(option::STRUCTURED_REPLY, &[], |_, _| ())?.is_ok();
        }
        let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
        if self.info.structured {
            let query = [&1_u32.to_be_bytes()[..], &(ALLOCATION.len() as u32).to_be_bytes(), ALLOCATION.as_bytes()];
            let mut allocation = false;
            let set = [&name[..], &query.concat()].concat();
            let chosen =
                self.option(option::SET_META_CONTEXT, &set, |kind, _| allocation |= kind == reply::META_CONTEXT);
            self.info.allocation = chosen?.is_ok() && allocation;
        }
        let go = [&name[..], &1_u16.to_be_bytes(), &info::BLOCK_SIZE.to_be_bytes()].concat();
        let mut told = self.info;
        let gone = self.option(option::GO, &go, |kind, data| match data {
            [0, 0, size @ .., high, low] if kind == reply::INFO && size.len() == 8 => {
                told.size = size.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
                told.flags = u16::from_be_bytes([*high, *low]);
            }
            [0, 3, sizes @ ..] if kind == reply::INFO && sizes.len() == 12 => {
                let mut blocks = sizes
                    .chunks_exact(4)
                    .map(|block| block.iter().fold(0, |value: u32, byte| value << 8 | u32::from(*byte)));
                told.blocks = Some(std::array::from_fn(|_| blocks.next().unwrap_or_default()));
            }
            _ => {}
        })?;
        self.info = told;
        gone.map_err(|(kind, text)| ClientError::Refused(kind, text))
    }

    /// Sends an option and takes its replies; an error is handed out with its text.
    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        mut each: impl FnMut(u32, &[u8]),
    ) -> Result<std::result::Result<(), (u32, String)>> {
        self.output.extend(OPTION_MAGIC.to_be_bytes());
        self.output.extend([option, data.len() as u32].map(u32::to_be_bytes).as_flattened());
        self.output.extend(data);
        self.flush()?;
        loop {
            let magic = self.take_u64()?;
            let (about, kind, len) = (self.take_u32()?, self.take_u32()?, self.take_u32()?);
            if magic != OPTION_REPLY_MAGIC || about != option || len > REPLY_BYTES_MAX {
                return Err(ClientError::Malformed("a reply to an option"));
            }
            let mut data = vec![0; len as usize];
            self.take_exact(&mut data)?;
            match kind {
                reply::ACK => return Ok(Ok(())),
                kind if kind & reply::ERROR != 0 => {
                    return Ok(Err((kind, String::from_utf8_lossy(&data).into_owned())));
                }
                kind => each(kind, &data),
            }
        }
    }

    /// Adds a command to those that leave with [`Self::flush`]; gives its number.
    pub fn add(&mut self, command: &Command<'_>) -> u64 {
        self.last_cookie += 1;
        let (kind, flags, offset, len) = command.fields();
        self.output.reserve(REQUEST_BYTES);
        self.output.extend(REQUEST_MAGIC.to_be_bytes());
        self.output.extend([flags, kind].map(u16::to_be_bytes).as_flattened());
        self.output.extend([self.last_cookie, offset].map(u64::to_be_bytes).as_flattened());
        self.output.extend(len.to_be_bytes());
        if let Command::Write { data, .. } = command {
            self.output.extend_from_slice(data);
        }
        let reads = if kind == command::READ { len as usize } else { 0 };
        let reply = Reply { cookie: self.last_cookie, ..Reply::default() };
        self.under_way.insert(self.last_cookie, UnderWay { offset, reads, reply });
        self.last_cookie
    }

    /// Sends what was added.
    pub fn flush(&mut self) -> Result<()> {
        self.socket.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Waits for the next reply that is complete, to whichever command.
    pub fn receive(&mut self) -> Result<Reply> {
        loop {
            let magic = self.take_u32()?;
            let cookie = match magic {
                SIMPLE_REPLY_MAGIC => self.simple()?,
                CHUNK_MAGIC if self.info.structured => self.chunk()?,
                _ => return Err(ClientError::Malformed("neither a reply nor a chunk")),
            };
            if let Some(cookie) = cookie {
                return Ok(self.under_way.remove(&cookie).map(|it| it.reply).unwrap_or_default());
            }
        }
    }

    /// Sends one command and waits for its reply. No other is under way.
    pub fn call(&mut self, command: &Command<'_>) -> Result<Reply> {
        self.add(command);
        self.flush()?;
        self.receive()
    }

    /// Ends the connection; waits until the server has closed it.
    pub fn disconnect(mut self) -> Result<()> {
        self.output.extend(REQUEST_MAGIC.to_be_bytes());
        self.output.extend([0, command::DISC].map(u16::to_be_bytes).as_flattened());
        self.output.extend([0; 20]);
        self.flush()?;
        match self.fill() {
            Err(ClientError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(ClientError::Malformed("more after the end")),
        }
    }

    /// Commands whose replies have not come yet.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn simple(&mut self) -> Result<Option<u64>> {
        let (error, cookie) = (self.take_u32()?, self.take_u64()?);
        let mut it = self.under_way.remove(&cookie).ok_or(ClientError::Malformed("a reply to nothing"))?;
        if it.reads > 0 && self.info.structured {
            return Err(ClientError::Malformed("a simple reply to a read"));
        }
        it.reply.error = error;
        if error == 0 && it.reads > 0 {
            it.reply.data = vec![0; it.reads];
            self.take_exact(&mut it.reply.data)?;
        }
        self.under_way.insert(cookie, it);
        Ok(Some(cookie))
    }

    fn chunk(&mut self) -> Result<Option<u64>> {
        let (flags, kind) = (self.take_u16()?, self.take_u16()?);
        let (cookie, len) = (self.take_u64()?, self.take_u32()?);
        let mut it = self.under_way.remove(&cookie).ok_or(ClientError::Malformed("a chunk of nothing"))?;
        if len > REPLY_BYTES_MAX {
            return Err(ClientError::Malformed("a chunk that is too long"));
        }
        match kind {
            chunk::NONE if len == 0 => {}
            chunk::OFFSET_DATA if len > 8 => {
                let offset = self.take_u64()?;
                self.take_exact(it.part(offset, u64::from(len) - 8)?)?;
                it.reply.chunks.0 += 1;
            }
            chunk::OFFSET_HOLE if len == 12 => {
                let (offset, hole) = (self.take_u64()?, self.take_u32()?);
                it.part(offset, hole.into())?.fill(0);
                it.reply.chunks.1 += 1;
            }
            chunk::BLOCK_STATUS if len >= 12 && len % 8 == 4 => {
                self.take_u32()?;
                for _ in 0..len / 8 {
                    it.reply.extents.push((self.take_u32()?, self.take_u32()?));
                }
            }
            kind if kind & 1 << 15 != 0 && len >= 6 => {
                it.reply.error = self.take_u32()?;
                let text = self.take_u16()?;
                let mut rest = vec![0; len as usize - 6];
                self.take_exact(&mut rest)?;
                rest.truncate(text.into());
                it.reply.text = String::from_utf8_lossy(&rest).into_owned();
            }
            _ => return Err(ClientError::Malformed("a chunk of no known kind")),
        }
        self.under_way.insert(cookie, it);
        Ok((flags & chunk::DONE != 0).then_some(cookie))
    }

    fn fill(&mut self) -> Result<()> {
        self.input.drain(..self.at);
        self.at = 0;
        let len = self.input.len();
        self.input.resize(READ_BYTES.max(len + 1), 0);
        let read = self.socket.read(&mut self.input[len..]);
        self.input.truncate(len + read.as_ref().copied().unwrap_or(0));
        match read? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }

    fn take_exact(&mut self, to: &mut [u8]) -> Result<()> {
        let here = to.len().min(self.input.len() - self.at);
        to[..here].copy_from_slice(&self.input[self.at..][..here]);
        self.at += here;
        if to.len() - here >= READ_BYTES {
            return Ok(self.socket.read_exact(&mut to[here..])?);
        }
        if here < to.len() {
            self.fill()?;
            return self.take_exact(&mut to[here..]);
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn take_u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    fn take_u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn take_u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take()?))
    }
}

impl UnderWay {
    /// The place of a chunk in what is read.
    fn part(&mut self, offset: u64, len: u64) -> Result<&mut [u8]> {
        self.reply.data.resize(self.reads, 0);
        let from = offset.checked_sub(self.offset).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(usize::try_from(len).ok()?)?));
        range.and_then(|range| self.reply.data.get_mut(range)).ok_or(ClientError::Malformed("a chunk out of its place"))
    }
}

impl Command<'_> {
    /// Number, flags, offset and length.
    fn fields(&self) -> (u16, u16, u64, u32) {
        let when = |is: bool, flag: u16| if is { flag } else { 0 };
        match *self {
            Self::Read { offset, len, whole } => (command::READ, when(whole, flag::DF), offset, len),
            Self::Write { offset, data, fua } => (command::WRITE, when(fua, flag::FUA), offset, data.len() as u32),
            Self::Flush => (command::FLUSH, 0, 0, 0),
            Self::Trim { offset, len, fua } => (command::TRIM, when(fua, flag::FUA), offset, len),
            Self::Zero { offset, len, flags } => (command::WRITE_ZEROES, flags, offset, len),
            Self::Cache { offset, len } => (command::CACHE, 0, offset, len),
            Self::Extents { offset, len, one } => (command::BLOCK_STATUS, when(one, flag::REQ_ONE), offset, len),
        }
    }
}
