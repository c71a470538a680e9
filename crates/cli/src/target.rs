//! The place of the store that a command speaks to, and the rule for a directory without one.

use crate::cli::{DEFAULT_SERVER, StoreTarget, Target};
use crate::error::usage;
use crate::{Error, Result};
use database::MAIN_SPACE_NAME;
use files::{BucketUrl, Server, Sites, keep_chunks_in_bucket};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thorp::{Builder, Db};
use vfs::{can_write, make_directory};

/// The environment's words for `--server` and `--dir`.
const SERVER_VARIABLE: &str = "THORP_SERVER";
const DIR_VARIABLE: &str = "THORP_DIR";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Behind one of these addresses.
    Server(String),
    /// In this directory.
    Dir(PathBuf),
}

impl Target {
    /// Opens a space that is there, of a store that is there.
    pub(crate) fn open(&self) -> Result<Db> {
        self.store.open_on(self.builder().create(false)).map_err(|error| match error.downcast_ref() {
            Some(thorp::Error::NoSuchSpace(name)) => {
                let hint = self.store.hint(&["spaces"]);
                format!(
                    "the store has no space '{name}': {hint} lists those it has; `thorp put` and `thorp load` make one"
                )
                .into()
            }
            _ => error,
        })
    }

    /// Opens a store to write to it: a directory without one becomes one, and a space that is missing is made.
    pub(crate) fn open_or_create(&self) -> Result<Db> {
        match self.store.place()? {
            Place::Server(server) => Ok(self.builder().connect(server)?),
            Place::Dir(dir) => {
                make_directory(&dir)?;
                Ok(self.builder().open(dir)?)
            }
        }
    }

    /// A command that speaks to the same space, as a hint shows it: with the options that were given.
    pub(crate) fn hint(&self, command: &[&str]) -> String {
        let space = self.space.iter().flat_map(|space| ["--space", space]);
        self.store.hint(&command.iter().copied().chain(space).collect::<Vec<_>>())
    }

    fn builder(&self) -> Builder {
        self.space.iter().fold(Db::builder(), Builder::space)
    }
}

/// The sites of a store, as a command opens them.
impl Target {
    /// Opens the sites of a store, which is made if it is a directory without one. Its large chunks go to a bucket, if
    /// one is named. A wait for a server ends when `is_given_up` says so.
    pub(crate) fn sites_or_create(
        &self,
        chunks: Option<&BucketUrl>,
        is_given_up: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Sites> {
        self.sites_with(true, chunks, is_given_up)
    }

    /// Opens the sites of a store that is there.
    pub(crate) fn sites(&self, is_given_up: impl Fn() -> bool + Send + Sync + 'static) -> Result<Sites> {
        self.sites_with(false, None, is_given_up)
    }

    fn sites_with(
        &self,
        create: bool,
        chunks: Option<&BucketUrl>,
        is_given_up: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Sites> {
        match self.store.place()? {
            Place::Server(_) if chunks.is_some() => {
                Err(usage("--chunks is for a store's directory: name it with --dir, or give --chunks to `thorp serve`"))
            }
            Place::Server(addresses) => {
                // The server makes the space for the first site: a command that fails, or a dry run, makes none.
                let db = match self.builder().create(false).connect(&addresses) {
                    Err(thorp::Error::NoSuchSpace(_)) if create => None,
                    db => Some(db?),
                };
                let (space, cache) = (self.space_name(), cache());
                Ok(Sites::connect(db, Server { addresses, space, cache, is_given_up: Arc::new(is_given_up) })?)
            }
            Place::Dir(dir) => {
                if create {
                    make_directory(&dir)?;
                } else if is_bare(&dir) {
                    return Err(no_store(&dir));
                }
                let db = self.builder().create(create).open(&dir)?;
                if let Some(url) = chunks {
                    keep_chunks_in_bucket(&dir, url)?;
                }
                Ok(Sites::open(db, &dir)?)
            }
        }
    }

    /// The addresses of the store, if it is not a directory.
    pub(crate) fn addresses(&self) -> Result<Option<String>> {
        match self.store.place()? {
            Place::Server(addresses) => Ok(Some(addresses)),
            Place::Dir(_) => Ok(None),
        }
    }

    /// The name of the space.
    pub(crate) fn space_name(&self) -> String {
        self.space.clone().unwrap_or_else(|| MAIN_SPACE_NAME.to_owned())
    }
}

/// The folder of this user for what can be made again, if there is one.
fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?.join("thorp");
    std::fs::create_dir_all(&folder).ok().map(|()| folder)
}

impl StoreTarget {
    /// Opens a store that is there.
    pub(crate) fn open(&self) -> Result<Db> {
        self.open_on(Db::builder().create(false))
    }

    fn open_on(&self, builder: Builder) -> Result<Db> {
        match self.place()? {
            Place::Server(server) => Ok(builder.connect(server)?),
            Place::Dir(dir) if is_bare(&dir) => Err(no_store(&dir)),
            Place::Dir(dir) => Ok(builder.read_only(!can_write(&dir)).open(dir)?),
        }
    }

    /// A command that speaks to the same store.
    fn hint(&self, command: &[&str]) -> String {
        let mut words: Vec<Cow<'_, str>> =
            command.iter().copied().filter(|word| !word.is_empty()).map(quoted).collect();
        if let Some(dir) = &self.dir {
            words.extend(["--dir".into(), quoted(&dir.to_string_lossy()).into_owned().into()]);
        }
        if let Some(server) = &self.server {
            words.extend(["--server".into(), quoted(server)]);
        }
        format!("`thorp {}`", words.join(" "))
    }

    fn place(&self) -> Result<Place> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match (&self.server, &self.dir, variable(SERVER_VARIABLE), variable(DIR_VARIABLE)) {
            (Some(server), ..) => Ok(Place::Server(server.clone())),
            (None, Some(dir), ..) => Ok(Place::Dir(dir.clone())),
            (None, None, Some(_), Some(_)) => Err(usage(format!(
                "both {SERVER_VARIABLE} and {DIR_VARIABLE} are set: unset one, or say --server or --dir"
            ))),
            (None, None, Some(server), None) => Ok(Place::Server(server.to_string_lossy().into_owned())),
            (None, None, None, Some(dir)) => Ok(Place::Dir(dir.into())),
            (None, None, None, None) => Ok(Place::Server(DEFAULT_SERVER.into())),
        }
    }
}

/// The address of a server: the given one, else the environment's, else the usual one.
pub(crate) fn server(given: Option<&str>) -> String {
    let variable = || std::env::var(SERVER_VARIABLE).ok().filter(|value| !value.is_empty());
    given.map(str::to_owned).or_else(variable).unwrap_or_else(|| DEFAULT_SERVER.into())
}

/// Whether there is nothing at all.
fn is_bare(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn no_store(dir: &Path) -> Error {
    let dir = dir.display();
    format!("there is no store in {dir}: check the path; `thorp put`, `thorp load`, `thorp publish` and `thorp serve` make one").into()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted() {
        let store = StoreTarget { server: None, dir: Some("my shed".into()) };
        let target = Target { store, space: Some("attic".into()) };
        assert_eq!(target.hint(&["ls", "it's"]), r"`thorp ls 'it'\''s' --space attic --dir 'my shed'`");
        let store = StoreTarget { server: Some("shed:7412,store:7411".into()), dir: None };
        let target = Target { store, space: None };
        assert_eq!(target.hint(&["ls", ""]), "`thorp ls --server shed:7412,store:7411`");
    }
}
