//! The handshake: from the first byte to the choice of an export.
//!
//! ```text
//!   greeting --client flags--> OPTION --EXPORT_NAME, GO--> transmission
//!                               |  ^
//!                               |  +-- LIST, INFO, *_META_CONTEXT, STRUCTURED_REPLY, unknown: a reply
//!                               +-- ABORT, a stream that makes no sense, too many options --> ended
//! ```
//! 1. Nothing is kept of an option but what it sets; an option that is too long is passed over, not buffered.
//! 2. Every option but `EXPORT_NAME` is replied to, also one that nobody knows, and the next is read after it.
//! 3. A metadata context holds for the export that it was chosen for.

use super::counters::Ended;
use super::limits::{NAME_BYTES_MAX, OPTION_BYTES_MAX, OPTIONS_MAX, PAYLOAD_BYTES_MAX};
use super::numbers::{
    ALLOCATION, ALLOCATION_ID, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, hello, info, option, reply, transmission,
};
use crate::device::Geometry;

/// The exports that there are to choose from. The first export is also the one without a name.
pub trait Catalog {
    /// How many exports there are.
    fn count(&self) -> usize;
    /// The name of one.
    fn name(&self, export: usize) -> &str;
    /// A text about one, for people.
    fn description(&self, export: usize) -> &str;
    /// Its size, and what it can do.
    fn geometry(&self, export: usize) -> Geometry;
}

/// The agreement of a client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The export.
    pub export: usize,
    /// Whether replies come in chunks.
    pub structured: bool,
    /// Whether the client may ask for extents.
    pub allocation: bool,
}

/// How far a handshake has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It continues when more has arrived.
    More,
    /// Requests follow.
    Transmission(Session),
    /// It has failed, or the client has ended it.
    Ended(Ended),
}

/// The first bytes of a server.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(hello::FIXED_NEWSTYLE | hello::NO_ZEROES).to_be_bytes());
    bytes
}

/// A handshake, from the server's side.
#[derive(Debug, Default)]
pub struct Handshake {
    awaits: Awaits,
    is_fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export that `base:allocation` was chosen for.
    allocation: Option<usize>,
    options: u32,
}

/// The part that comes next.
#[derive(Clone, Copy, Debug, Default)]
enum Awaits {
    #[default]
    ClientFlags,
    Option,
    Data {
        option: u32,
        len: usize,
    },
    /// The rest of an option that is too long.
    Rest {
        option: u32,
        len: usize,
    },
}

impl Handshake {
    /// Takes what has arrived and adds what should be sent. Returns how much of the input is used up; the rest comes
    /// again, with more behind it.
    pub fn advance(&mut self, catalog: &dyn Catalog, input: &[u8], output: &mut Vec<u8>) -> (usize, Step) {
        let mut rest = input;
        let step = loop {
            match self.part(catalog, &mut rest, output) {
                Some(Step::More) => {}
                Some(step) => break step,
                None => break Step::More,
            }
        };
        (input.len() - rest.len(), step)
    }

    /// Takes one part, if all of it has arrived.
    fn part(&mut self, catalog: &dyn Catalog, input: &mut &[u8], output: &mut Vec<u8>) -> Option<Step> {
        match self.awaits {
            Awaits::ClientFlags => Some(self.client_flags(u32::from_be_bytes(take_array(input)?))),
            Awaits::Option => Some(self.option(&take_array(input)?)),
            Awaits::Data { option, len } => {
                let (data, rest) = input.split_at_checked(len)?;
                *input = rest;
                self.awaits = Awaits::Option;
                Some(self.answer(catalog, option, data, output))
            }
            Awaits::Rest { option, len } => {
                let passed = len.min(input.len());
                *input = &input[passed..];
                self.awaits = Awaits::Rest { option, len: len - passed };
                if len > passed {
                    return None;
                }
                self.awaits = Awaits::Option;
                put_error(output, option, reply::ERR_TOO_BIG, "the option is longer than this server takes");
                Some(Step::More)
            }
        }
    }

    fn client_flags(&mut self, flags: u32) -> Step {
        if flags & !u32::from(hello::FIXED_NEWSTYLE | hello::NO_ZEROES) != 0 {
            return Step::Ended(Ended::ClientFlags);
        }
        self.is_fixed = flags & u32::from(hello::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(hello::NO_ZEROES) != 0;
        self.awaits = Awaits::Option;
        Step::More
    }

    fn option(&mut self, head: &[u8; 16]) -> Step {
        let head = u128::from_be_bytes(*head);
        let (option, len) = ((head >> 32) as u32, head as u32 as usize);
        if (head >> 64) as u64 != OPTION_MAGIC {
            return Step::Ended(Ended::OptionMagic);
        }
        if !self.is_fixed && option != option::EXPORT_NAME {
            return Step::Ended(Ended::NotFixed);
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Step::Ended(Ended::Options);
        }
        if len <= OPTION_BYTES_MAX {
            self.awaits = Awaits::Data { option, len };
        } else if option == option::EXPORT_NAME {
            return Step::Ended(Ended::UnknownExport);
        } else {
            // A choice of contexts replaces the one before also if it fails.
            self.allocation = self.allocation.filter(|_| option != option::SET_META_CONTEXT);
            self.awaits = Awaits::Rest { option, len };
        }
        Step::More
    }

    fn answer(&mut self, catalog: &dyn Catalog, option: u32, data: &[u8], output: &mut Vec<u8>) -> Step {
        match option {
            option::EXPORT_NAME => return self.export_name(catalog, data, output),
            option::ABORT => {
                put_reply(output, option, reply::ACK, &[]);
                return Step::Ended(Ended::Aborted);
            }
            option::LIST | option::STRUCTURED_REPLY | option::STARTTLS if !data.is_empty() => {
                put_error(output, option, reply::ERR_INVALID, "the option takes no data");
            }
            option::LIST => list(catalog, output),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                put_reply(output, option, reply::ACK, &[]);
            }
            option::INFO | option::GO => return self.info(catalog, option, data, output),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(catalog, option, data, output),
            option::STARTTLS => put_error(output, option, reply::ERR_UNSUP, "this server has no TLS"),
            _ => put_error(output, option, reply::ERR_UNSUP, "the option is not known here"),
        }
        Step::More
    }

    fn export_name(&self, catalog: &dyn Catalog, name: &[u8], output: &mut Vec<u8>) -> Step {
        let Some(export) = find(catalog, name) else { return Step::Ended(Ended::UnknownExport) };
        let geometry = catalog.geometry(export);
        output.extend(geometry.size.to_be_bytes());
        output.extend(self.flags(&geometry).to_be_bytes());
        if !self.no_zeroes {
            output.extend([0; 124]);
        }
        Step::Transmission(self.session(export))
    }

    fn session(&self, export: usize) -> Session {
        Session { export, structured: self.structured, allocation: self.allocation == Some(export) }
    }

    fn flags(&self, geometry: &Geometry) -> u16 {
        use transmission::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, ROTATIONAL, SEND_CACHE, SEND_DF, SEND_FAST_ZERO, SEND_FLUSH,
            SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
        };
        let when = |is: bool, flags: u16| if is { flags } else { 0 };
        // A flush covers the writes of all connections, so clients may have several.
        HAS_FLAGS
            | SEND_FLUSH
            | SEND_FUA
            | SEND_CACHE
            | CAN_MULTI_CONN
            | when(!geometry.read_only, SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO)
            | when(geometry.read_only, READ_ONLY)
            | when(geometry.rotational, ROTATIONAL)
            | when(self.structured, SEND_DF)
    }

    fn info(&self, catalog: &dyn Catalog, option: u32, data: &[u8], output: &mut Vec<u8>) -> Step {
        let Some((name, wanted)) = split_info(data) else {
            put_error(output, option, reply::ERR_INVALID, "the lengths in the option do not add up");
            return Step::More;
        };
        let Some(export) = find(catalog, name) else {
            put_error(output, option, reply::ERR_UNKNOWN, "there is no export of this name");
            return Step::More;
        };
        let geometry = catalog.geometry(export);
        let wants = |kind: u16| wanted.chunks_exact(2).any(|item| item == kind.to_be_bytes());
        put_info(output, option, info::EXPORT, &[&geometry.size.to_be_bytes(), &self.flags(&geometry).to_be_bytes()]);
        if wants(info::NAME) {
            put_info(output, option, info::NAME, &[catalog.name(export).as_bytes()]);
        }
        if wants(info::DESCRIPTION) && !catalog.description(export).is_empty() {
            put_info(output, option, info::DESCRIPTION, &[catalog.description(export).as_bytes()]);
        }
        if wants(info::BLOCK_SIZE) {
            let sizes = [geometry.block_min, geometry.block_preferred, PAYLOAD_BYTES_MAX].map(u32::to_be_bytes);
            put_info(output, option, info::BLOCK_SIZE, &[sizes.as_flattened()]);
        }
        put_reply(output, option, reply::ACK, &[]);
        if option == option::GO { Step::Transmission(self.session(export)) } else { Step::More }
    }

    /// Lists or chooses metadata contexts. There is one.
    fn contexts(&mut self, catalog: &dyn Catalog, option: u32, data: &[u8], output: &mut Vec<u8>) {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.allocation = None;
        }
        if !self.structured {
            return put_error(output, option, reply::ERR_INVALID, "structured replies come first");
        }
        let Some((name, queries)) = split_queries(data) else {
            return put_error(output, option, reply::ERR_INVALID, "the lengths in the option do not add up");
        };
        let Some(export) = find(catalog, name) else {
            return put_error(output, option, reply::ERR_UNKNOWN, "there is no export of this name");
        };
        if queries.iter().any(|query| !query.contains(&b':')) {
            return put_error(output, option, reply::ERR_INVALID, "a query begins with a namespace and a colon");
        }
        let is_named = queries.iter().any(|query| *query == ALLOCATION.as_bytes());
        let is_listed = !is_set && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if is_named || is_listed {
            let id = if is_set { ALLOCATION_ID } else { 0 };
            put_reply(output, option, reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION.as_bytes()]);
        }
        if is_set && is_named {
            self.allocation = Some(export);
        }
        put_reply(output, option, reply::ACK, &[]);
    }
}

/// The export of a name. The empty name is that of the first.
fn find(catalog: &dyn Catalog, name: &[u8]) -> Option<usize> {
    let named = (0..catalog.count()).find(|&export| catalog.name(export).as_bytes() == name);
    named.or_else(|| (name.is_empty() && catalog.count() > 0).then_some(0))
}

fn list(catalog: &dyn Catalog, output: &mut Vec<u8>) {
    for export in 0..catalog.count() {
        let (name, description) = (catalog.name(export), catalog.description(export));
        let len = (name.len() as u32).to_be_bytes();
        put_reply(output, option::LIST, reply::SERVER, &[&len, name.as_bytes(), description.as_bytes()]);
    }
    put_reply(output, option::LIST, reply::ACK, &[]);
}

fn put_info(output: &mut Vec<u8>, option: u32, kind: u16, payload: &[&[u8]]) {
    let kind = kind.to_be_bytes();
    let parts: Vec<&[u8]> = std::iter::once(&kind[..]).chain(payload.iter().copied()).collect();
    put_reply(output, option, reply::INFO, &parts);
}

fn put_error(output: &mut Vec<u8>, option: u32, kind: u32, text: &str) {
    put_reply(output, option, kind, &[text.as_bytes()]);
}

fn put_reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    let len = data.iter().map(|part| part.len()).sum::<usize>() as u32;
    output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend([option, kind, len].map(u32::to_be_bytes).as_flattened());
    for part in data {
        output.extend(*part);
    }
}

/// The name and the kinds of information in INFO and GO.
fn split_info(mut data: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = take_string(&mut data)?;
    let count = u16::from_be_bytes(take_array(&mut data)?);
    (data.len() == 2 * usize::from(count)).then_some((name, data))
}

/// The name and the queries in LIST_META_CONTEXT and SET_META_CONTEXT.
fn split_queries(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = take_string(&mut data)?;
    let count = take_u32(&mut data)?;
    let mut queries = Vec::new();
    for _ in 0..count {
        // It ends with the data, however many were announced.
        queries.push(take_string(&mut data)?);
    }
    data.is_empty().then_some((name, queries))
}

fn take_string<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_u32(input)? as usize;
    let (string, rest) = input.split_at_checked(len).filter(|_| len <= NAME_BYTES_MAX)?;
    *input = rest;
    Some(string)
}

fn take_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*array)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    take_array(input).map(u32::from_be_bytes)
}
