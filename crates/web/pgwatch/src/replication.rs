//! A connection that streams changes: from the first byte to the frames of the stream, and the replies to them.
//!
//! The clients of others reply to the server by themselves, with the position of what they have read. Here a reply
//! makes a commit visible, so it is said by [`crate::Watcher`] alone (`docs/decisions/0022-own-replication-client.md`).

use crate::database::Database;
use crate::error::WatchError;
use crate::lsn::Lsn;
use crate::standing::Process;
use crate::tls::Stream;
use crate::watcher::Server;
use bytes::{Buf, Bytes, BytesMut};
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{self, ErrorFields};
use postgres_protocol::message::frontend;
use std::io;
use std::ops::Range;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::fallible_iterator::FallibleIterator;

/// The largest frame that is looked at, in bytes. A larger one of the stream is passed over.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// The bytes of a larger one that are kept, to see what it is.
const HEAD_BYTES: usize = 64;

/// The bytes before a change in its frame: a letter, two positions and a time.
const CHANGE_AT: usize = 25;

/// The time that a server's clock begins at, after that of Unix.
const EPOCH: Duration = Duration::from_secs(946_684_800);

/// Values are told as texts, which must not depend on the settings of the role.
const OPTIONS: &str =
    "-c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=3 -c bytea_output=hex -c timezone=UTC";

/// A connection.
pub(crate) struct Replication {
    stream: Box<dyn Stream>,
    input: BytesMut,
    /// Bytes of a frame that are passed over.
    skip: usize,
}

/// A frame of the stream.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A message of the plug-in.
    Change(Bytes),
    /// The start of one that is too large.
    LargeChange(Bytes),
    /// All before this position was sent, and whether a reply is wanted.
    Keepalive(Lsn, bool),
}

/// A frame as it is on the wire.
struct Raw {
    tag: u8,
    /// Behind the length, and only the start of it if it is too large.
    body: Bytes,
    is_large: bool,
}

impl Replication {
    /// Connects, and says who asks.
    pub(crate) async fn connect(database: &Database, name: &str) -> Result<Self, WatchError> {
        let (stream, config) = (database.dial().await?, &database.config);
        let mut connection = Self { stream, input: BytesMut::new(), skip: 0 };
        let user = config.get_user().unwrap_or("postgres");
        let name_of_database = config.get_dbname().unwrap_or(user);
        let parameters = [
            ("user", user),
            ("database", name_of_database),
            ("application_name", name),
            ("client_encoding", "UTF8"),
            ("replication", "database"),
            ("options", OPTIONS),
        ];
        let mut startup = BytesMut::new();
        frontend::startup_message(parameters, &mut startup)?;
        connection.stream.write_all(&startup).await?;
        connection.authenticate(user, config.get_password().unwrap_or_default()).await?;
        Ok(connection)
    }

    async fn authenticate(&mut self, user: &str, password: &[u8]) -> Result<(), WatchError> {
        let mut scram = None;
        loop {
            let mut reply = BytesMut::new();
            match self.message().await? {
                backend::Message::AuthenticationCleartextPassword => frontend::password_message(password, &mut reply)?,
                backend::Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user.as_bytes(), password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut reply)?;
                }
                backend::Message::AuthenticationSasl(body) => {
                    let mut offered = body.mechanisms();
                    while let Some(mechanism) = offered.next()? {
                        if mechanism == sasl::SCRAM_SHA_256 {
                            scram = Some(sasl::ScramSha256::new(password, sasl::ChannelBinding::unsupported()));
                        }
                    }
                    let scram = scram.as_ref().ok_or(WatchError::Authentication)?;
                    frontend::sasl_initial_response(sasl::SCRAM_SHA_256, scram.message(), &mut reply)?;
                }
                backend::Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().ok_or(WatchError::Authentication)?;
                    scram.update(body.data())?;
                    frontend::sasl_response(scram.message(), &mut reply)?;
                }
                backend::Message::AuthenticationSaslFinal(body) => {
                    scram.as_mut().ok_or(WatchError::Authentication)?.finish(body.data())?;
                }
                backend::Message::AuthenticationOk
                | backend::Message::ParameterStatus(_)
                | backend::Message::BackendKeyData(_)
                | backend::Message::NoticeResponse(_) => {}
                backend::Message::ReadyForQuery(_) => return Ok(()),
                _ => return Err(WatchError::Authentication),
            }
            self.stream.write_all(&reply).await?;
        }
    }

    /// The server that this is.
    pub(crate) async fn identify(&mut self) -> Result<Server, WatchError> {
        let row = self.row("IDENTIFY_SYSTEM").await?;
        let identity = match &row[..] {
            [system, timeline, ..] => system.parse().ok().zip(timeline.parse().ok()),
            _ => None,
        };
        let (system, timeline) = identity.ok_or(WatchError::Unexpected("no identity"))?;
        Ok(Server { system, timeline })
    }

    /// The process of the server's end.
    pub(crate) async fn process(&mut self) -> Result<Process, WatchError> {
        match &self.row(Process::OWN).await?[..] {
            [id, begun] if !begun.is_empty() => {
                let id = id.parse().map_err(|_| WatchError::Unexpected("what is no process"))?;
                Ok(Process { id, begun: begun.clone() })
            }
            _ => Err(WatchError::Unexpected("no process")),
        }
    }

    /// The values of the row that a query before the stream gives, as texts.
    async fn row(&mut self, text: &str) -> Result<Vec<String>, WatchError> {
        let mut query = BytesMut::new();
        frontend::query(text, &mut query)?;
        self.stream.write_all(&query).await?;
        let mut values = Vec::new();
        loop {
            match self.message().await? {
                backend::Message::DataRow(row) => {
                    let ranges: Vec<_> = row.ranges().collect()?;
                    let text = |range: Option<Range<usize>>| {
                        String::from_utf8_lossy(range.map_or(&[][..], |range| &row.buffer()[range])).into_owned()
                    };
                    values = ranges.into_iter().map(text).collect();
                }
                backend::Message::ReadyForQuery(_) => return Ok(values),
                _ => {}
            }
        }
    }

    /// Begins the stream where the slot stands.
    pub(crate) async fn start(&mut self, slot: &str, publication: &str) -> Result<(), WatchError> {
        let slot = quote(slot, '"');
        // The name is in a list of names, and that in a text.
        let publications = quote(&quote(publication, '"'), '\'');
        let text = format!(
            "START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names {publications}, messages 'true')"
        );
        let mut query = BytesMut::new();
        frontend::query(&text, &mut query)?;
        self.stream.write_all(&query).await?;
        loop {
            let raw = self.raw().await?;
            match raw.tag {
                b'W' => return Ok(()),
                b'E' => return Err(raw.refusal()),
                b'N' | b'S' => {}
                _ => return Err(WatchError::Unexpected("no stream")),
            }
        }
    }

    /// The next frame of the stream. It may be dropped while it waits, and nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Frame, WatchError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            self.read().await?;
        }
    }

    /// The next frame, if it is there.
    pub(crate) fn take(&mut self) -> Result<Option<Frame>, WatchError> {
        while let Some(raw) = self.take_raw()? {
            match (raw.tag, raw.body.first()) {
                (b'd', Some(b'w')) if raw.body.len() > CHANGE_AT => {
                    let change = raw.body.slice(CHANGE_AT..);
                    return Ok(Some(if raw.is_large { Frame::LargeChange(change) } else { Frame::Change(change) }));
                }
                (b'd', Some(b'k')) if raw.body.len() >= 18 => {
                    let mut body = raw.body.slice(1..);
                    let end = Lsn(body.get_u64());
                    body.advance(8);
                    return Ok(Some(Frame::Keepalive(end, body.get_u8() != 0)));
                }
                (b'E', _) => return Err(raw.refusal()),
                // A server that is stopped ends the stream first.
                (b'c' | b'C' | b'Z', _) => return Err(WatchError::Ended),
                (b'N' | b'S', _) => {}
                _ => return Err(WatchError::Unexpected("a frame that does not belong into a stream")),
            }
        }
        Ok(None)
    }

    /// Returns how far the database may go, and may ask for a heartbeat.
    ///
    /// Written, flushed and applied are the same position. So sessions with `synchronous_commit` at `remote_write`,
    /// `on` or `remote_apply` wait for the same.
    pub(crate) async fn reply(&mut self, through: Lsn, wants_reply: bool) -> Result<(), WatchError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + EPOCH).unwrap_or_default();
        let mut body = vec![b'r'];
        for number in [through.0, through.0, through.0, now.as_micros() as u64] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        body.push(u8::from(wants_reply));
        let mut frame = BytesMut::new();
        frontend::CopyData::new(&body[..])?.write(&mut frame);
        self.stream.write_all(&frame).await?;
        Ok(())
    }

    /// A message before the stream.
    async fn message(&mut self) -> Result<backend::Message, WatchError> {
        let raw = self.raw().await?;
        match raw.parse()? {
            backend::Message::ErrorResponse(body) => Err(refusal(body.fields())),
            message => Ok(message),
        }
    }

    async fn raw(&mut self) -> Result<Raw, WatchError> {
        loop {
            if let Some(raw) = self.take_raw()? {
                return Ok(raw);
            }
            self.read().await?;
        }
    }

    fn take_raw(&mut self) -> Result<Option<Raw>, WatchError> {
        let skipped = self.skip.min(self.input.len());
        self.input.advance(skipped);
        self.skip -= skipped;
        let Some((&[tag, a, b, c, d], rest)) = self.input.split_first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let length = length.checked_sub(4).ok_or(WatchError::Unexpected("a frame without its length"))?;
        let is_large = length > FRAME_BYTES_MAX;
        if is_large && tag != b'd' {
            return Err(WatchError::Unexpected("a frame of more than 16 MiB"));
        }
        let kept = if is_large { HEAD_BYTES } else { length };
        if rest.len() < kept {
            return Ok(None);
        }
        self.input.advance(5);
        self.skip = length - kept;
        Ok(Some(Raw { tag, body: self.input.split_to(kept).freeze(), is_large }))
    }

    async fn read(&mut self) -> Result<(), WatchError> {
        self.input.reserve(16 << 10);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(WatchError::Ended),
            _ => Ok(()),
        }
    }
}

impl Raw {
    /// The error that this is.
    fn refusal(&self) -> WatchError {
        match self.parse() {
            Ok(backend::Message::ErrorResponse(body)) => refusal(body.fields()),
            _ => WatchError::Unexpected("an error that cannot be read"),
        }
    }

    /// Reads a message that is not of the stream.
    fn parse(&self) -> io::Result<backend::Message> {
        let mut bytes = BytesMut::with_capacity(self.body.len() + 5);
        bytes.extend_from_slice(&[self.tag]);
        bytes.extend_from_slice(&(self.body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(&self.body);
        backend::Message::parse(&mut bytes)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn refusal(mut fields: ErrorFields<'_>) -> WatchError {
    let (mut code, mut text) = (String::new(), String::new());
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => code = value,
            b'M' => text = value,
            _ => {}
        }
    }
    WatchError::Refused { code, text }
}

/// A name or a text of SQL.
pub(crate) fn quote(text: &str, mark: char) -> String {
    format!("{mark}{}{mark}", text.replace(mark, &format!("{mark}{mark}")))
}
