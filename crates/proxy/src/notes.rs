//! The notes of a running proxy to its operator, unasked.

use crate::tls::TlsFileError;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

/// Something that an operator should know.
#[derive(Debug)]
pub enum Note {
    /// The files of the certificates have changed, and new connections are shown the new ones.
    CertificatesChanged,
    /// The files have changed, and cannot be used. New connections are shown the old certificates.
    CertificatesRefused(TlsFileError),
    /// TLS with the origin fails, for this reason. It is said once for each reason in a row.
    OriginTls(String),
}

impl Note {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CertificatesChanged => "certificates-changed",
            Self::CertificatesRefused(_) => "certificates-refused",
            Self::OriginTls(_) => "origin-tls",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CertificatesChanged => f.write_str("the certificates have changed: new connections get the new ones"),
            Self::CertificatesRefused(why) => write!(f, "the certificates stay as they were: {why}"),
            Self::OriginTls(why) => write!(f, "TLS with the origin fails: {why}"),
        }
    }
}

/// Where notes go.
#[derive(Debug)]
pub(crate) struct Notes {
    sender: Option<Sender<Note>>,
    last_origin_tls: Mutex<Option<String>>,
}

impl Notes {
    pub(crate) fn to(sender: Option<Sender<Note>>) -> Self {
        Self { sender, last_origin_tls: Mutex::default() }
    }

    pub(crate) fn say(&self, note: Note) {
        if let Some(sender) = &self.sender {
            // One that does not listen any more does not want to know.
            let _ = sender.send(note);
        }
    }

    /// TLS with the origin has failed, as it may do for every request.
    pub(crate) fn origin_tls(&self, why: String) {
        let mut last = self.last_origin_tls.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&why) {
            self.say(Note::OriginTls(why.clone()));
            *last = Some(why);
        }
    }
}
