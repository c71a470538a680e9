//! The notes of a running proxy to its operator, unasked.

use crate::origin::origin_tls_error::{OriginTlsError, OriginTlsKind};
use serving::tls::TlsFileError;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Something that an operator should know.
#[derive(Debug)]
pub enum Note {
    /// The files of the certificates have changed, and new connections are shown the new ones.
    CertificatesChanged,
    /// The files have changed, and cannot be used. New connections are shown the old certificates.
    CertificatesRefused(TlsFileError),
    /// TLS with the origin fails, for this reason. It is said once for each kind of error in a row, and again after TLS
    /// has worked, or with new settings.
    OriginTls(String),
    /// A field of the origin could not be read: something is not stored, or everything was invalidated. It is said
    /// once a minute for each reason.
    FieldMisread(String),
    /// A home has another hub than the others, and is not used.
    HomeRefused(String),
    /// The access log cannot be written. Said once, and again after it could be written.
    AccessLog(String),
    /// The hub, a home or a watcher is away: requests go to the application, as no stored response can be proved
    /// current.
    CoherenceAway(String),
    /// The hub, the homes and the watchers are there again.
    CoherenceBack,
    /// Updates name nothing that stored responses depend on. Said once, and again after an update that does.
    NamesUnmatched(String),
    /// A request field of this name was dropped, as the application must not believe it. It is noted once for each
    /// name.
    FieldDropped(String),
    /// Bodies of requests cannot be kept in files, and such requests are refused. It is noted again after it has
    /// worked.
    Uploads(String),
    /// The disk for stored responses fails, or is full. It is said once, and again when it has worked in the meantime.
    Disk(String),
}

impl Note {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CertificatesChanged => "certificates-changed",
            Self::CertificatesRefused(_) => "certificates-refused",
            Self::OriginTls(_) => "origin-tls",
            Self::FieldMisread(_) => "field-misread",
            Self::HomeRefused(_) => "home-refused",
            Self::AccessLog(_) => "access-log",
            Self::CoherenceAway(_) => "coherence-away",
            Self::CoherenceBack => "coherence-back",
            Self::NamesUnmatched(_) => "names-unmatched",
            Self::FieldDropped(_) => "field-dropped",
            Self::Uploads(_) => "uploads",
            Self::Disk(_) => "disk",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CertificatesChanged => f.write_str("the certificates have changed: new connections get the new ones"),
            Self::CertificatesRefused(why) => write!(f, "the certificates stay as they were: {why}"),
            Self::OriginTls(why) => write!(f, "TLS with the origin fails: {why}"),
            Self::FieldMisread(what) | Self::HomeRefused(what) | Self::NamesUnmatched(what) => f.write_str(what),
            Self::AccessLog(why) => write!(f, "the access log: {why}"),
            Self::CoherenceAway(why) => {
                write!(f, "stored responses cannot be proved current, and such requests go to the application: {why}")
            }
            Self::CoherenceBack => {
                f.write_str("stored responses answer again: the hub, the homes and the watchers are there")
            }
            Self::FieldDropped(name) if name.contains('_') => write!(
                f,
                "dropped the request field '{name}', which many applications read as '{}' (--keep-underscores keeps it)",
                name.replace('_', "-")
            ),
            Self::FieldDropped(name) => write!(f, "dropped the request field '{name}', which rewrites requests"),
            Self::Uploads(why) => write!(f, "a request was refused: no file for its body (--upload-dir): {why}"),
            Self::Disk(why) => write!(f, "the disk for stored responses: {why}"),
        }
    }
}

/// Where notes go.
#[derive(Debug)]
pub(crate) struct Notes {
    sender: Option<Sender<Note>>,
    last_origin_tls: Mutex<Option<OriginTlsKind>>,
    /// When each reason was told last that is told seldom.
    seldom: Mutex<Vec<(&'static str, Instant)>>,
}

/// How long a reason is not told again that may come up with every request.
const SELDOM: Duration = Duration::from_secs(60);

impl Notes {
    pub(crate) fn to(sender: Option<Sender<Note>>) -> Self {
        Self { sender, last_origin_tls: Mutex::default(), seldom: Mutex::default() }
    }

    pub(crate) fn say(&self, note: Note) {
        if let Some(sender) = &self.sender {
            // One that does not listen any more does not want to know.
            let _ = sender.send(note);
        }
    }

    /// Reports a reason that may come up with every request, at most once a minute. The reasons are a fixed few.
    pub(crate) fn say_seldom(&self, reason: &'static str, note: impl FnOnce() -> Note) {
        let now = Instant::now();
        {
            let mut seldom = self.seldom.lock().unwrap_or_else(PoisonError::into_inner);
            if seldom.iter().any(|(other, at)| *other == reason && now - *at < SELDOM) {
                return;
            }
            seldom.retain(|(other, _)| *other != reason);
            seldom.push((reason, now));
        }
        self.say(note());
    }

    /// TLS with the origin has failed, as it may do for every request.
    pub(crate) fn origin_tls(&self, error: &OriginTlsError) {
        if self.last_origin_tls().replace(error.kind()) != Some(error.kind()) {
            self.say(Note::OriginTls(error.to_string()));
        }
    }

    /// TLS with the origin works, or is tried in another way: its next failure is news.
    pub(crate) fn origin_tls_again(&self) {
        *self.last_origin_tls() = None;
    }

    fn last_origin_tls(&self) -> MutexGuard<'_, Option<OriginTlsKind>> {
        self.last_origin_tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio_rustls::rustls::pki_types::UnixTime;
    use tokio_rustls::rustls::{CertificateError, Error};

    #[test]
    fn a_failure_is_told_once_until_it_is_another_or_tls_has_worked() {
        let expired = |now: u64| {
            let [time, not_after] = [now, 1].map(|s| UnixTime::since_unix_epoch(Duration::from_secs(s)));
            OriginTlsError::Tls(CertificateError::ExpiredContext { time, not_after }.into())
        };
        let unknown = OriginTlsError::Tls(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert_ne!(expired(2).to_string(), expired(3).to_string());
        let (sender, noted) = mpsc::channel();
        let notes = Notes::to(Some(sender));
        let told = |error: &OriginTlsError| {
            notes.origin_tls(error);
            noted.try_iter().count()
        };
        assert_eq!([told(&expired(2)), told(&expired(3)), told(&unknown), told(&expired(4))], [1, 0, 1, 1]);
        notes.origin_tls_again();
        assert_eq!([told(&expired(5)), told(&OriginTlsError::NoHttp2)], [1, 1]);
    }
}
