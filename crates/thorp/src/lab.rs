//! Where the processes of a torture or a measurement run: all on loopback, or in places that are really apart, which somebody else has
//! made and describes in a file.

use crate::{Error, Result};
use bench::{Program, lasting_address};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long whoever has made the places may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Of the ports in a place: those from which connections take their own ends are beyond.
const FIRST_PORT: u16 = 20_000;

/// The store's place, and those of the groups.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lab {
    /// Where the store runs.
    pub(crate) store: Place,
    /// Where the groups run, one each.
    pub(crate) sites: Vec<Place>,
    /// Where it can be said which of them are cut off.
    control: Option<PathBuf>,
    /// What the line of each site is like.
    line: Option<LineOfSite>,
}

/// The line between a site and the store's place.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineOfSite {
    one_way_ms: f64,
    loss_percent: f64,
}

/// A place where processes run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The words before those of a program that run it there.
    run: Vec<String>,
    /// The address of this place.
    ip: IpAddr,
    /// Ports that were given out.
    #[serde(skip)]
    ports: u16,
}

impl Lab {
    /// All on loopback.
    pub(crate) fn loopback(groups: usize) -> Self {
        let place = Place { run: Vec::new(), ip: Ipv4Addr::LOCALHOST.into(), ports: 0 };
        Self { store: place.clone(), sites: vec![place; groups], control: None, line: None }
    }

    /// The places that a file describes.
    pub(crate) fn read(file: &Path, groups: usize) -> Result<Self> {
        let cannot = |why: String| Error::from(format!("{}: {why}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| cannot(error.to_string()))?;
        let lab: Self = serde_json::from_str(&text).map_err(|error| cannot(error.to_string()))?;
        if lab.sites.len() < groups {
            return Err(cannot(format!("{} sites are too few for {groups} groups", lab.sites.len())));
        }
        Ok(lab)
    }

    /// The round trip between a site and the store's place, and how much of what is sent is lost, in percent.
    pub(crate) fn line(&self) -> Option<(Duration, f64)> {
        self.line.map(|line| (Duration::from_secs_f64(2.0 * line.one_way_ms / 1e3), line.loss_percent))
    }

    /// Whether sites can be cut off.
    pub(crate) fn can_cut(&self) -> bool {
        self.control.is_some()
    }

    /// Cuts a site off from all others, or heals it.
    pub(crate) fn cut(&self, site: usize, is_cut: bool) -> Result {
        let control = self.control.as_ref().ok_or("on one machine nothing can be cut off")?;
        let mut control = UnixStream::connect(control)?;
        control.set_read_timeout(Some(ANSWER_WITHIN))?;
        writeln!(control, "{} {}", if is_cut { "cut" } else { "heal" }, site + 1)?;
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer)?;
        if answer.trim() == "done" { Ok(()) } else { Err(format!("the lab says `{}`", answer.trim()).into()) }
    }
}

impl Place {
    /// Runs a program here.
    pub(crate) fn program(&self, path: &Path) -> Program {
        Program { run: self.run.clone(), ..path.into() }
    }

    /// Whether others than this machine may see what passes.
    pub(crate) fn is_open(&self) -> bool {
        !self.ip.is_loopback()
    }

    /// An address here that nobody listens on, and that stays so until somebody does.
    pub(crate) fn address(&mut self) -> Result<SocketAddr> {
        if !self.is_open() {
            return lasting_address();
        }
        self.ports += 1;
        Ok(SocketAddr::from((self.ip, FIRST_PORT + self.ports)))
    }
}
