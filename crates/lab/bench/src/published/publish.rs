//! Publishes of few changes, to a store's directory and to its server, over a walk of the directory by `find`, which
//! looks at every file, too.

use super::directory::{Directory, settle};
use super::farm::{Farm, SITE, text};
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result};
use fixtures::Program;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The files of the directory in which nothing changes.
const UNCHANGED_FILES: u64 = 100_000;
const FILE_BYTES: usize = 100;

/// The files that change, of the others.
const CHANGED: u64 = 10;

/// How often that is measured.
const ROUNDS: u64 = 5;

/// The bounds, over the walk.
const CHANGED_MAX: f64 = 1.2;
const UNCHANGED_MAX: f64 = 2.0;

/// Everything that a walk knows about a file without opening it.
const FORMAT: &str = "%p %s %T@ %C@ %i %m %U %G\n";

/// A store, as the command line names it.
struct To {
    by: &'static str,
    words: [String; 2],
}

/// The figures of one store.
#[derive(Debug, Default)]
struct Took {
    publish: Vec<f64>,
    find: Vec<f64>,
}

pub(super) fn measure(
    place: &Place,
    sizes: SiteSizes,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let program = Program::from(&place.program);
    let mut cases = vec![(sizes.files, vec![CHANGED, 0])];
    if sizes.files > UNCHANGED_FILES {
        cases = vec![(sizes.files, vec![CHANGED]), (UNCHANGED_FILES, vec![0])];
    }
    for (files, cases) in cases {
        let farm = Farm::start(place, &format!("publish-{files}"), &[])?;
        progress(&format!("write {files} files"));
        let directory = Directory::deep(farm.path("www"), files, FILE_BYTES)?;
        settle(sizes);
        let own = text(&farm.path("own"))?.to_owned();
        let stores = [
            To { by: "dir", words: ["--dir".to_owned(), own] },
            To { by: "server", words: ["--server".to_owned(), farm.address().to_string()] },
        ];
        for to in &stores {
            progress(&format!("publish {files} files by --{}", to.by));
            publish(&program, &farm, directory.path(), to)?;
        }
        for changed in cases {
            let mut took: [Took; 2] = Default::default();
            let rounds = sizes.rounds(ROUNDS);
            for round in 1..=rounds {
                progress(&format!("publish {changed} changed of {files} files: round {round} of {rounds}"));
                for (to, took) in stores.iter().zip(&mut took) {
                    took.find.push(find(directory.path())?);
                    for file in 0..changed {
                        directory.write(file * (files / CHANGED), round * 2 + u64::from(to.by == "dir"))?;
                    }
                    took.publish.push(publish(&program, &farm, directory.path(), to)?);
                }
            }
            stores.iter().zip(&took).try_for_each(|(to, took)| found(line_of(to, files, changed, took)))?;
        }
    }
    Ok(())
}

fn line_of(to: &To, files: u64, changed: u64, took: &Took) -> Line {
    let Took { publish, find } = took;
    let over_find = median(publish.iter().zip(find).map(|(publish, find)| publish / find).collect());
    let bound = if changed > 0 { CHANGED_MAX } else { UNCHANGED_MAX };
    line("publish")
        .word("by", to.by)
        .count("files", files)
        .count("changed", changed)
        .figure("publish_ms", median(publish.clone()))
        .figure("find_ms", median(find.clone()))
        .figure("over_find", over_find)
        .figure("over_find_max", bound)
        .met(over_find <= bound, find)
}

/// Publishes by the program. Returns how long it took, in milliseconds.
fn publish(program: &Program, farm: &Farm, dir: &Path, to: &To) -> Result<f64> {
    let mut command = program.command();
    command.args(["publish", text(dir)?, SITE]).args(&to.words).env("XDG_CACHE_HOME", farm.path("cache"));
    timed(&mut command)
}

/// Walks a directory. Returns how long it took, in milliseconds.
fn find(dir: &Path) -> Result<f64> {
    timed(Command::new("find").arg(dir).args(["-printf", FORMAT]))
}

/// Runs a command without reading its output. Returns how long it took, in milliseconds.
pub(super) fn timed(command: &mut Command) -> Result<f64> {
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).status()?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    if status.success() { Ok(took) } else { Err(format!("{}: {status}", command.get_program().display()).into()) }
}
