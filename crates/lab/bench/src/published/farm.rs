//! A store with a site, and the groups and servers that follow it.

use crate::{Place, Result};
use files::{Publish, Published, Server, SiteName, Sites};
use fixtures::{Folder, Process, Program};
use objects::Db;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the site.
pub(crate) const SITE: &str = "shop";

/// Leases that last longer than any figure takes: none of them counts a renewal.
pub(crate) const LONG_LEASES: &[&str] = &["--site-lease-ms", "600000"];

/// A store whose sites are served. Dropping it ends the store, and removes everything in its folder.
#[derive(Debug)]
pub(crate) struct Farm {
    program: Program,
    store: Process,
    /// Removed when the store has ended.
    folder: Folder,
}

impl Farm {
    /// Starts a store in a folder of this name.
    pub(crate) fn start(place: &Place, name: &str, words: &[&str]) -> Result<Self> {
        let (program, folder) = (Program::from(&place.program), Folder::create(place.dir.join(name))?);
        let store = program.serve(&folder.path().join("store"), words)?;
        Ok(Self { program, store, folder })
    }

    /// The address of the store.
    pub(crate) fn address(&self) -> SocketAddr {
        self.store.address()
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The sites of the store, as the library has them.
    pub(crate) fn sites(&self) -> Result<Sites> {
        let cache = self.path("cache");
        std::fs::create_dir_all(&cache)?;
        let server = Server {
            addresses: self.address().to_string(),
            space: "main".to_owned(),
            cache: Some(cache),
            is_given_up: Arc::new(|| false),
        };
        Ok(Sites::connect(Some(Db::connect(self.address())?), server)?)
    }

    /// Starts the redirector of a group, with its relay.
    pub(crate) fn group(&self, name: &str, store: SocketAddr) -> Result<Process> {
        self.program.group(name, store, &["--admin", "127.0.0.1:0"])?.until("leads", name)
    }

    /// Starts a server that follows the site, with its files in a folder of this name.
    pub(crate) fn member(&self, name: &str, server: SocketAddr) -> Result<Process> {
        let (server, dir) = (server.to_string(), self.path(name));
        let words = ["site", "serve", SITE, "--server", &server, "--cache", text(&dir)?];
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        self.program.start("a server of a site", &[&words[..], &listen].concat())
    }

    /// Mounts the site on a directory.
    pub(crate) fn mount(&self, at: &Path, more: &[&str]) -> Result<Process> {
        let (server, dir) = (self.address().to_string(), self.path("mounted"));
        let words = ["mount", SITE, text(at)?, "--server", &server, "--cache", text(&dir)?, "--admin", "127.0.0.1:0"];
        self.program.start("a mount", &[&words, more].concat())
    }
}

/// Publishes a directory by the library.
pub(crate) fn publish(sites: &Sites, dir: &Path) -> Result<Published> {
    Ok(sites.publish(&site(), dir, &Publish::default(), &mut |_| ControlFlow::Continue(()))?)
}

/// The site.
pub(crate) fn site() -> SiteName {
    SiteName::parse(SITE).expect("it is the name of a site")
}

/// A path as a word for a command line.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("the path {} is not text", path.display()).into())
}
