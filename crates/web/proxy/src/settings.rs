//! The settings of a proxy once they are checked: the files that they name are read, and nothing is started yet.

use crate::config::{Config, DiskConfig};
use crate::limits::UNWRITTEN_BYTES_MAX;
use crate::origin::connector::OriginTls;
use crate::request::upload_room::unnamed_file;
use crate::stored::disk_content::Disk;
use coherence::SiteError;
use diskcache::OpenError;
use http::HeaderValue;
use serving::LoadedCertificates;
use serving::tls::TlsFileError;
use std::{fmt, io};
use vfs::Directory;

/// Settings by which requests can be served.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// `Via` of an answer from here.
    pub(crate) via: HeaderValue,
    /// TLS towards the origin, if its URL says so.
    pub(crate) origin_tls: Option<OriginTls>,
}

/// Why a proxy does not start, or does not take new settings.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: io::Error,
}

impl StartError {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { what: what.into(), source: source.into() }
    }

    pub(crate) fn site(error: SiteError) -> Self {
        Self::new("cannot start the home", io::Error::other(error))
    }

    pub(crate) fn disk(error: OpenError) -> Self {
        Self::new(format!("cannot keep responses on disk ({})", error.name()), io::Error::other(error))
    }

    pub(crate) fn tls(error: TlsFileError) -> Self {
        Self::new("cannot speak TLS", io::Error::other(error))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Checks a configuration, and reads the files that it names; gives the certificates beside the rest.
pub(crate) fn check(mut config: Config) -> Result<(Settings, Option<LoadedCertificates>), StartError> {
    // The memory is that of the running proxy, where there is one.
    let limits = &mut config.limits;
    let most = limits.stored_bytes.max(largest_on_disk(config.disk.as_ref()) as usize);
    limits.stored_response_bytes = limits.stored_response_bytes.min(most);
    let via = via(&config.name).ok_or_else(|| {
        let what = format!("'{}' is no name for Via: letters, digits, '-', '.' and '_'", config.name);
        StartError::new(what, io::ErrorKind::InvalidInput)
    })?;
    if let Some(admin) = config.admin {
        ops::check_address(admin, config.admin_token.is_some())
            .map_err(|error| StartError::new("cannot listen for operators", error))?;
    }
    config.site.check().map_err(StartError::site)?;
    if let Some(disk) = &config.disk {
        let files = Directory::new(&disk.dir);
        Disk::check(&files, &disk_settings(disk, &config)).map_err(StartError::disk)?;
    }
    if let Some(dir) = &config.upload_dir {
        let cannot_keep = |error| StartError::new(format!("cannot keep request bodies in {}", dir.display()), error);
        unnamed_file(dir).map_err(cannot_keep)?;
    }
    let certificates = match &config.certificates[..] {
        [] => None,
        files => Some(LoadedCertificates::read(files).map_err(StartError::tls)?),
    };
    let origin_tls = OriginTls::of(&config).map_err(StartError::tls)?;
    Ok((Settings { config, via, origin_tls }, certificates))
}

/// The largest content that there is room for on disk.
fn largest_on_disk(disk: Option<&DiskConfig>) -> u64 {
    disk.map_or(0, |disk| diskcache::Config::content_bytes_max_of(disk.bytes))
}

/// The settings of the disk behind the memory.
pub(crate) fn disk_settings(disk: &DiskConfig, config: &Config) -> diskcache::Config {
    diskcache::Config {
        bytes: disk.bytes,
        content_bytes_max: largest_on_disk(Some(disk)).min(config.limits.stored_response_bytes as u64),
        unwritten_bytes_max: UNWRITTEN_BYTES_MAX,
        of: config.origin.to_string(),
    }
}

/// `Via` of an answer from here.
fn via(name: &str) -> Option<HeaderValue> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    HeaderValue::try_from(format!("1.1 {name}")).ok().filter(|_| is_name)
}
