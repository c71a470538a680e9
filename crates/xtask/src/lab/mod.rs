//! `cargo xtask lab`: places of their own, joined by lines that take their time, for a command to run programs at.
//!
//! ```text
//!   namespace of the store     this process        namespace of site 1
//!   +----------------+     +------------------+     +----------------+
//!   | programs  lab0 |<===>| relay: two lines |<===>| lab0  programs |      10.198.0.1   the store
//!   +----------------+ TUN |        a site    | TUN +----------------+      10.198.0.2.. the sites
//!                          +------------------+  ... further sites
//!                       ^ cut 1, rate 1 10, heal 1   command: in the namespace this was started in
//! ```
//! Programs at the places use the kernel's TCP, unchanged, and the delay is real: what a sleep inside of a program,
//! or a simulator, leaves out (windows, acknowledgements, retransmissions) is there.
//!
//! The command finds the places in a JSON file whose path stands for `{lab}` among its words. To run a program at a
//! place it puts the place's `run` before the program's words: `nsenter`, which becomes the program, so its process id
//! is the program's.

mod command;
mod control;
mod folder;
mod kernel;
mod line;
mod namespace;
mod network;
mod options;
mod relay;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use options::Options;

use crate::Result;
use folder::Folder;
use line::Quality;
use namespace::Namespace;
use network::Network;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use worker::Worker;

/// The word of a command that stands for the path of the lab's description.
const DESCRIPTION: &str = "{lab}";

/// How a command's run in a lab came out.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It has run, and ended like this.
    Ended(ExitStatus),
    /// There can be no lab here, and this is why.
    Skipped(String),
}

/// Runs the command line's command in a lab, and ends like it.
pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let (options, command) = Options::parse(words)?;
    match run_in(&options, command)? {
        Outcome::Ended(status) => Ok(exit_code(status)),
        Outcome::Skipped(why) => Err(format!("lab: cannot run here: {why}")),
    }
}

/// Runs a command in a lab, if there can be one here.
pub(crate) fn run_in(options: &Options, command: &[String]) -> Result<Outcome> {
    if let Some(why) = namespace::obstacle() {
        return Ok(Outcome::Skipped(why));
    }
    let lab = Lab::open(options)?;
    let description = lab.write_description()?;
    let fill_in = |word: &String| if word == DESCRIPTION { description.clone() } else { word.clone() };
    let command: Vec<_> = command.iter().map(fill_in).collect();
    command::run(&command).map(Outcome::Ended)
}

/// Ends like a shell whose last command ended so.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Places and the lines between them. Dropped in the order of its fields: first nobody asks for anything, then nothing
/// is carried, then the places go.
struct Lab {
    _control: Worker,
    _relay: Worker,
    store: Namespace,
    sites: Vec<Namespace>,
    quality: Quality,
    folder: Folder,
}

impl Lab {
    fn open(options: &Options) -> Result<Self> {
        let network = relay::Shared::new(Network::new(options.sites, &options.quality));
        let (store, store_device) = Namespace::make(network::STORE)?;
        let (mut sites, mut devices) = (Vec::new(), vec![store_device]);
        for site in 1..=options.sites {
            let (namespace, device) = Namespace::make(site)?;
            sites.push(namespace);
            devices.push(device);
        }
        let relay = relay::start(devices, network.clone())?;
        // Last, so that who is ended while the places are made leaves nothing behind.
        let folder = Folder::new()?;
        let control = control::start(&folder.path().join("control"), network)?;
        Ok(Self { _control: control, _relay: relay, store, sites, quality: options.quality.clone(), folder })
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Writes down where everything is. Returns the path of the file.
    fn write_description(&self) -> Result<String> {
        let path = self.folder.path().join("lab.json");
        let sites: Vec<_> = self.sites.iter().map(describe).collect();
        let control = self.control().display().to_string();
        let Quality { one_way, bits_per_s, loss_percent } = &self.quality;
        let mbit_s = bits_per_s.map(|bits| bits / 1e6);
        let line = json!({"one_way_ms": one_way.as_secs_f64() * 1e3, "loss_percent": loss_percent, "mbit_s": mbit_s});
        let text =
            json!({"store": describe(&self.store), "sites": sites, "line": line, "control": control}).to_string();
        std::fs::write(&path, text + "\n").map_err(|error| format!("lab: cannot write {}: {error}", path.display()))?;
        Ok(path.display().to_string())
    }
}

fn describe(place: &Namespace) -> Value {
    json!({"run": run_words(place), "ip": place.ip.to_string()})
}

/// The words that come before a program's to run it at a place.
fn run_words(place: &Namespace) -> [String; 3] {
    ["nsenter".to_owned(), format!("--net={}", place.path), "--".to_owned()]
}
