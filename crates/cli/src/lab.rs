//! Where the processes of a torture or a measurement run: all on loopback, or in places that are really apart, which
//! somebody else has made and describes in a file.

use crate::{Error, Result};
use fixtures::{Program, lasting_address};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the lab may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Of the ports in a place: those from which connections take their own ends are beyond.
const FIRST_PORT: u16 = 20_000;

/// The store's place, and those of the groups. Dropping it heals every line that was changed. The file that describes
/// one is documented in `docs/lab.md`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lab {
    /// Where the store runs.
    pub(crate) store: Place,
    /// Where the groups run, one each.
    pub(crate) sites: Vec<Place>,
    /// The socket by which the sites' lines are changed.
    control: Option<PathBuf>,
    /// The quality of each site's line.
    line: Option<Line>,
    /// The changes to the lines of sites since.
    #[serde(skip)]
    weather: BTreeMap<usize, Weather>,
}

/// The line between a site and the store's place, as it was made.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    one_way_ms: f64,
    /// How much of what is sent is lost.
    pub(crate) loss_percent: f64,
    /// The rate in either direction; no limit, if there is none.
    pub(crate) mbit_s: Option<f64>,
}

impl Line {
    pub(crate) fn round_trip(self) -> Duration {
        Duration::from_secs_f64(2.0 * self.one_way_ms / 1e3)
    }
}

/// A change to a line for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Weather {
    /// How much of what is sent is lost, in percent; as much as ever, if there is none.
    pub(crate) loss_percent: Option<f64>,
    /// The rate; unchanged, if there is none.
    pub(crate) mbit_s: Option<f64>,
}

/// In which direction nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Both,
    FromSite,
    ToSite,
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
        Self { store: place.clone(), sites: vec![place; groups], control: None, line: None, weather: BTreeMap::new() }
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

    /// The quality that the lines were made with, if the file says so.
    pub(crate) fn line(&self) -> Option<Line> {
        self.line
    }

    /// Whether lines can be changed.
    pub(crate) fn can_change(&self) -> bool {
        self.control.is_some()
    }

    /// Cuts a site off, in one direction or both, until it is [resumed](Lab::resume).
    pub(crate) fn cut(&mut self, site: usize, cut: Cut) -> Result {
        let direction = match cut {
            Cut::Both => "",
            Cut::FromSite => " up",
            Cut::ToSite => " down",
        };
        self.weather.entry(site).or_default();
        self.order(&[format!("cut {}{direction}", site + 1)])
    }

    /// A site that was cut off is no longer; the weather stays.
    pub(crate) fn resume(&mut self, site: usize) -> Result {
        self.set_weather(site, self.weather.get(&site).copied().unwrap_or_default())
    }

    /// From now on a site's line is as it was made, but for this.
    pub(crate) fn set_weather(&mut self, site: usize, weather: Weather) -> Result {
        self.weather.insert(site, weather);
        let number = site + 1;
        let loss = weather.loss_percent.map(|percent| format!("loss {number} {percent}"));
        let rate = weather.mbit_s.map(|mbit_s| format!("rate {number} {mbit_s}"));
        let orders: Vec<_> = [format!("heal {number}")].into_iter().chain(loss).chain(rate).collect();
        self.order(&orders)
    }

    /// Tells the lab how to change its lines.
    fn order(&self, orders: &[String]) -> Result {
        let control = self.control.as_ref().ok_or("on one machine there are no lines to change")?;
        let mut control = BufReader::new(UnixStream::connect(control)?);
        control.get_mut().set_read_timeout(Some(ANSWER_WITHIN))?;
        for order in orders {
            writeln!(control.get_mut(), "{order}")?;
            let mut answer = String::new();
            control.read_line(&mut answer)?;
            if answer.trim() != "done" {
                return Err(format!("the lab was told `{order}` and says `{}`", answer.trim()).into());
            }
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for site in std::mem::take(&mut self.weather).into_keys() {
            // The lab may be gone, and its lines with it.
            let _ = self.order(&[format!("heal {}", site + 1)]);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documents_is_read() {
        let text = include_str!("../../../docs/lab.md");
        let example = text.split("```").find_map(|part| part.strip_prefix("json")).unwrap();
        let lab: Lab = serde_json::from_str(example).unwrap();
        assert_eq!((lab.sites.len(), lab.can_change()), (1, true));
        assert_eq!(lab.line().map(Line::round_trip), Some(Duration::from_millis(40)));
    }
}
