//! Where a database is, who asks, and how its connections are protected.

use crate::error::WatchError;
use crate::tls::{Stream, Tls, TlsMode};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A database, parsed from `postgres://...` or `host=... user=...`. `sslmode` and `sslrootcert` mean what they mean to
/// PostgreSQL's own clients, but that nothing is encrypted where nothing is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where it is, and who asks.
    pub config: Config,
    /// How its connections over TCP are protected. A socket of this machine needs nothing.
    pub(crate) tls: Tls,
}

/// Why a text is no database.
#[derive(Debug)]
pub enum NotADatabase {
    /// It is not an address of one.
    Address(tokio_postgres::Error),
    /// A word of it has no name or no value.
    Words,
    /// `sslmode` or `sslrootcert` stands there twice.
    Twice,
    /// A mode of TLS that there is not.
    Mode(String),
    /// A file of authorities where nothing is encrypted, so nothing would be checked.
    Unused,
}

impl fmt::Display for NotADatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => {
                let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
                write!(f, "{error}: {why}: expected postgres://USER@HOST:PORT/NAME, or host=... user=... dbname=...")
            }
            Self::Words => f.write_str("expected postgres://USER@HOST:PORT/NAME, or words of name=value"),
            Self::Twice => f.write_str("sslmode and sslrootcert are each said once"),
            Self::Mode(mode) => {
                write!(f, "sslmode={mode}: expected disable, prefer, require, verify-ca or verify-full")
            }
            Self::Unused => f.write_str("sslrootcert checks nothing without TLS: say sslmode=verify-full, too"),
        }
    }
}

impl std::error::Error for NotADatabase {}

impl From<Config> for Database {
    fn from(config: Config) -> Self {
        Self { config, tls: Tls::NONE }
    }
}

impl FromStr for Database {
    type Err = NotADatabase;

    fn from_str(text: &str) -> Result<Self, NotADatabase> {
        let (mut modes, mut files) = (Vec::new(), Vec::new());
        // These two mean more here than to the parser of the others.
        let mut is_ours = |name: &str, value: String| {
            match name {
                "sslmode" => modes.push(value),
                "sslrootcert" => files.push(PathBuf::from(value)),
                _ => return false,
            }
            true
        };
        let rest = match text.split_once('?') {
            Some((address, query)) if is_url(text) => {
                let others = query.split('&').filter(|word| {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    !is_ours(name, decoded(value))
                });
                let others: Vec<_> = others.collect();
                let mark = if others.is_empty() { "" } else { "?" };
                format!("{address}{mark}{}", others.join("&"))
            }
            _ if is_url(text) => text.to_owned(),
            _ => {
                let mut words = words(text);
                // The parser of the others would end there, and say nothing.
                if words.iter().any(|word| word.name.is_empty()) {
                    return Err(NotADatabase::Words);
                }
                words.retain(|word| !is_ours(word.name, word.value()));
                words.iter().map(|word| word.whole).collect()
            }
        };
        let config: Config = rest.parse().map_err(NotADatabase::Address)?;
        if modes.len() > 1 || files.len() > 1 {
            return Err(NotADatabase::Twice);
        }
        let (mode, authorities) = (modes.pop(), files.pop());
        let mode = match mode.as_deref() {
            None | Some("disable" | "prefer" | "allow") if authorities.is_some() => return Err(NotADatabase::Unused),
            None | Some("disable" | "prefer" | "allow") => TlsMode::None,
            // As it is with PostgreSQL's own clients.
            Some("require") if authorities.is_some() => TlsMode::Authority,
            Some("require") => TlsMode::Unchecked,
            Some("verify-ca") => TlsMode::Authority,
            Some("verify-full") => TlsMode::Full,
            Some(other) => return Err(NotADatabase::Mode(other.to_owned())),
        };
        // `system` is the name of those that the system trusts.
        let authorities = authorities.filter(|file| file.as_os_str() != "system");
        Ok(Self { config, tls: Tls { mode, authorities } })
    }
}

impl Database {
    /// A connection for queries.
    pub(crate) async fn connect(&self) -> Result<Client, WatchError> {
        let stream = self.dial().await?;
        let (client, connection) = self.config.connect_raw(stream, NoTls).await?;
        // Its end is noticed by the queries.
        tokio::spawn(async { drop(connection.await) });
        Ok(client)
    }

    /// A connection to the first of the addresses that answers, behind TLS if there should be any.
    pub(crate) async fn dial(&self) -> Result<Box<dyn Stream>, WatchError> {
        let mut last = WatchError::Io(io::ErrorKind::AddrNotAvailable.into());
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let dial = self.dial_host(host, port);
            let dialed = match self.config.get_connect_timeout() {
                Some(within) => timeout(*within, dial).await.unwrap_or(Err(WatchError::Silent)),
                None => dial.await,
            };
            match dialed {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn dial_host(&self, host: &Host, port: u16) -> Result<Box<dyn Stream>, WatchError> {
        match host {
            Host::Tcp(name) => {
                let stream = TcpStream::connect((name.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                self.tls.protect(stream, name).await
            }
            Host::Unix(folder) => Ok(Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?)),
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// A value of a URL without its escapes. A wrong one stands for itself.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| behind.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A word of `name=value`, with the space around it.
struct Word<'a> {
    whole: &'a str,
    name: &'a str,
    quoted: &'a str,
}

impl Word<'_> {
    /// The value without quotation marks and escapes.
    fn value(&self) -> String {
        let inner = self.quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(self.quoted);
        let mut is_escaped = false;
        inner
            .chars()
            .filter(|c| {
                is_escaped = *c == '\\' && !is_escaped;
                !is_escaped
            })
            .collect()
    }
}

/// The words of a text. Where there is no name, the rest is one word without it.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.trim_start().is_empty() {
        let Some(equals) = rest.find('=') else {
            words.push(Word { whole: rest, name: "", quoted: "" });
            break;
        };
        let begin = equals + 1 + (rest[equals + 1..].len() - rest[equals + 1..].trim_start().len());
        let end = begin + end_of_value(&rest[begin..]);
        words.push(Word { whole: &rest[..end], name: rest[..equals].trim(), quoted: &rest[begin..end] });
        rest = &rest[end..];
    }
    words
}

/// The length of a value: to the next space, or to its closing quotation mark.
fn end_of_value(text: &str) -> usize {
    let is_quoted = text.starts_with('\'');
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(usize::from(is_quoted)) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\'' if is_quoted => return at + 1,
            c if c.is_whitespace() && !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Database {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tls(mode: TlsMode, authorities: Option<&str>) -> Tls {
        Tls { mode, authorities: authorities.map(PathBuf::from) }
    }

    #[test]
    fn modes_are_read_and_the_rest_is_left() {
        let plain: Config = "postgres://me@db.example:5433/shop?connect_timeout=3".parse().unwrap();
        for (query, expected) in [
            ("", tls(TlsMode::None, None)),
            ("&sslmode=disable", tls(TlsMode::None, None)),
            ("&sslmode=require", tls(TlsMode::Unchecked, None)),
            ("&sslmode=require&sslrootcert=/etc/a%20b.pem", tls(TlsMode::Authority, Some("/etc/a b.pem"))),
            ("&sslmode=verify-ca", tls(TlsMode::Authority, None)),
            ("&sslrootcert=system&sslmode=verify-full", tls(TlsMode::Full, None)),
        ] {
            let url = parse(&format!("postgres://me@db.example:5433/shop?connect_timeout=3{query}"));
            assert_eq!(url, Database { config: plain.clone(), tls: expected }, "{query}");
        }
        let alone = parse("postgres://me@db.example/shop?sslmode=verify-full");
        assert_eq!(alone.config, "postgres://me@db.example/shop".parse().unwrap());
        let words = parse(r"host=db.example sslmode = verify-full user='it\'s me' sslrootcert='/etc/a b.pem' dbname=x");
        assert_eq!(words.config, r"host=db.example user='it\'s me' dbname=x".parse().unwrap());
        assert_eq!(words.tls, tls(TlsMode::Full, Some("/etc/a b.pem")));
    }

    #[test]
    fn modes_that_would_protect_nothing_are_refused() {
        let error = |text: &str| text.parse::<Database>().unwrap_err().to_string();
        assert!(error("postgres://db?sslmode=full").contains("sslmode=full: expected disable"));
        assert!(error("host=db sslrootcert=ca.pem").contains("sslmode=verify-full"));
        assert!(error("host=db sslcert=me.pem").contains("sslcert"));
        assert!(error("host=db sslmode=require sslmode=disable").contains("once"));
        for nonsense in ["host", "host='", "='", "host=a b", "\\", "postgres://?sslmode", "mysql://db"] {
            assert!(nonsense.parse::<Database>().is_err(), "{nonsense}");
        }
    }
}
