//! Reads of a mounted site, over those of the same files on a local disk: small ones from an open file while the site
//! is published, and all of a large file. Each as a mount reads by itself, and with passthrough.

use super::directory::Directory;
use super::farm::{Farm, publish};
use super::{SiteSizes, line};
use crate::sample::median;
use crate::{Line, Place, Result, Sample};
use fixtures::Process;
use fixtures::mounts::{has_fuse, has_passthrough};
use fixtures::{PATIENCE, try_until};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The file that is read while others are published.
const OPEN_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 4096;

/// How long it is read, and how often a file is published meanwhile.
const DURING: Duration = Duration::from_secs(6);
const EVERY: Duration = Duration::from_millis(100);

/// Reads of one file before the other has its turn.
const TURN: usize = 2000;

/// The file that is read as a whole, how often, and by how much at a time.
const LARGE_BYTES: usize = 256 << 20;
const ROUNDS: u64 = 5;
const STEP_BYTES: usize = 128 << 10;

/// The bounds: of the p99 of small reads over that of local ones, and of a cached large file's rate over the local one,
/// by the kernel's cache of the mount and with passthrough.
const P99_OVER_LOCAL_MAX: f64 = 1.2;
const CACHE_OVER_LOCAL_MIN: f64 = 0.3;
const PASSTHROUGH_OVER_LOCAL_MIN: f64 = 0.7;

pub(super) fn measure(
    place: &Place,
    sizes: SiteSizes,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    if !has_fuse() {
        return found(line("mount").word("skipped", "no file systems can be mounted"));
    }
    let all = if has_passthrough() { &[By::Cache, By::Passthrough][..] } else { &[By::Cache] };
    for by in all {
        found(during_publishes(place, sizes, *by, progress)?)?;
    }
    for by in all {
        found(in_sequence(place, sizes, *by, progress)?)?;
    }
    Ok(())
}

/// How the kernel reads files of a mount that were read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// From its cache of the mount.
    Cache,
    /// From files that were assembled.
    Passthrough,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Passthrough => "passthrough",
        }
    }

    fn rate_over_local_min(self) -> f64 {
        match self {
            Self::Cache => CACHE_OVER_LOCAL_MIN,
            Self::Passthrough => PASSTHROUGH_OVER_LOCAL_MIN,
        }
    }
}

/// A site that is mounted, for as long as this lives.
struct Mounted {
    at: PathBuf,
    process: Option<Process>,
    by: By,
}

impl Mounted {
    fn new(farm: &Farm, by: By) -> Result<Self> {
        let at = farm.path("mnt");
        std::fs::create_dir_all(&at)?;
        let more = match by {
            By::Cache => &[][..],
            By::Passthrough => &["--passthrough", "1G"],
        };
        Ok(Self { process: Some(farm.mount(&at, more)?), at, by })
    }

    /// Opens a file, which was read before, in the way that is measured.
    fn open(&self, name: &str, bytes: usize) -> Result<File> {
        let path = self.at.join(name);
        read_all(&File::open(&path)?, bytes)?;
        if self.by == By::Passthrough {
            let assembled = || (self.figure("assembled").ok()? > 0).then_some(());
            try_until("the file is assembled", PATIENCE, assembled)?;
        }
        let before = self.figure("passthrough_opens")?;
        let file = File::open(path)?;
        let is_passed = self.figure("passthrough_opens")? > before;
        if is_passed == (self.by == By::Passthrough) { Ok(file) } else { Err("it was opened in another way".into()) }
    }

    /// A figure of the mount.
    fn figure(&self, name: &str) -> Result<u64> {
        let process = self.process.as_ref().ok_or("the mount has ended")?;
        process.status()?["mount"][0][name].as_u64().ok_or_else(|| format!("the mount has no figure {name}").into())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It unmounts when its input ends. An error has no reader any longer.
        let _ = self.process.take().map(Process::end);
    }
}

/// Reads of 4 KiB from an open file and from a local one, in turns, while the site is published.
fn during_publishes(place: &Place, sizes: SiteSizes, by: By, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "mount-open", &[])?;
    let bytes = if sizes.is_trial() { OPEN_BYTES / 16 } else { OPEN_BYTES };
    let directory = Directory::flat(farm.path("www"), 2, bytes)?;
    let sites = farm.sites()?;
    publish(&sites, directory.path())?;
    let mounted = Mounted::new(&farm, by)?;
    progress(&format!("reads of an open file during publishes, by {}", by.name()));
    let name = directory.name(0);
    let files = [mounted.open(&name, bytes)?, File::open(directory.path().join(&name))?];
    for file in &files {
        read_all(file, bytes)?;
    }
    let (is_over, mut samples) = (AtomicBool::new(false), [Sample::default(), Sample::default()]);
    let published = thread::scope(|scope| {
        let publisher = scope.spawn(|| -> Result<u64> {
            let mut version = 0;
            while !is_over.load(SeqCst) {
                let begun = Instant::now();
                version += 1;
                directory.write(1, version)?;
                publish(&sites, directory.path())?;
                thread::sleep(EVERY.saturating_sub(begun.elapsed()));
            }
            Ok(version)
        });
        let (begun, mut buffer, mut at) = (Instant::now(), vec![0; READ_BYTES], 0);
        let mut read = || -> Result<()> {
            while begun.elapsed() < sizes.during(DURING) {
                for (file, sample) in files.iter().zip(&mut samples) {
                    for _ in 0..TURN {
                        // Pages in no order.
                        at = (at + 7919 * READ_BYTES) % (bytes - READ_BYTES);
                        sample.time(|| file.read_exact_at(&mut buffer, at as u64))?;
                    }
                }
            }
            Ok(())
        };
        let done = read();
        is_over.store(true, SeqCst);
        let published = publisher.join().unwrap_or_else(|_| Err("the publisher panicked".into()));
        done.and(published)
    })?;
    let [ours, local] = samples;
    let over_local = ours.micros(0.99) / local.micros(0.99);
    Ok(line("mount")
        .word("reads", "open file")
        .word("by", by.name())
        .count("publishes", published)
        .count("read_bytes", READ_BYTES as u64)
        .figure("us_p50", ours.micros(0.5))
        .figure("local_us_p50", local.micros(0.5))
        .figure("us_p99", ours.micros(0.99))
        .figure("local_us_p99", local.micros(0.99))
        .figure("p99_over_local", over_local)
        .figure("p99_over_local_max", P99_OVER_LOCAL_MAX)
        .met(over_local <= P99_OVER_LOCAL_MAX, &local.thirds()))
}

/// All of a large file: when the kernel has nothing of it, except with passthrough, and again when it has all; the
/// second over a local file that it has.
fn in_sequence(place: &Place, sizes: SiteSizes, by: By, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "mount-large", &[])?;
    let bytes = if sizes.is_trial() { LARGE_BYTES / 64 } else { LARGE_BYTES };
    progress("publish a large file");
    let directory = Directory::flat(farm.path("www"), 1, bytes)?;
    publish(&farm.sites()?, directory.path())?;
    let mounted = Mounted::new(&farm, by)?;
    let [ours, local] = [mounted.at.as_path(), directory.path()].map(|root| root.join(directory.name(0)));
    read_whole(&local, bytes, false)?;
    let (mut first, mut cached, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = sizes.rounds(ROUNDS);
    // One handle keeps the inode in the way that is measured.
    let open = (by == By::Passthrough).then(|| mounted.open(&directory.name(0), bytes)).transpose()?;
    for round in 0..rounds {
        progress(&format!("read a large file by {}: round {} of {rounds}", by.name(), round + 1));
        if by == By::Cache {
            first.push(read_whole(&ours, bytes, true)?);
        }
        beside.push(read_whole(&local, bytes, false)?);
        cached.push(read_whole(&ours, bytes, false)?);
    }
    drop(open);
    let over_local = median(cached.iter().zip(&beside).map(|(ours, local)| ours / local).collect());
    let mut line = line("mount").word("reads", "in sequence").word("by", by.name()).count("file_bytes", bytes as u64);
    if by == By::Cache {
        line = line.figure("first_mb_per_s", median(first));
    }
    Ok(line
        .figure("cached_mb_per_s", median(cached))
        .figure("local_mb_per_s", median(beside.clone()))
        .figure("cached_over_local", over_local)
        .figure("cached_over_local_min", by.rate_over_local_min())
        .met(over_local >= by.rate_over_local_min(), &beside))
}

/// Reads a file, whose pages the kernel forgets first if it is to be `cold`. Returns the rate, in MB/s.
fn read_whole(path: &Path, bytes: usize, cold: bool) -> Result<f64> {
    let file = File::open(path)?;
    if cold {
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    let begun = Instant::now();
    read_all(&file, bytes)?;
    Ok(bytes as f64 / 1e6 / begun.elapsed().as_secs_f64())
}

fn read_all(mut file: &File, bytes: usize) -> Result<()> {
    let (mut buffer, mut sum) = (vec![0; STEP_BYTES], 0);
    loop {
        match file.read(&mut buffer)? {
            0 if sum == bytes => return Ok(()),
            0 => return Err(format!("{sum} bytes were read of {bytes}").into()),
            count => sum += count,
        }
    }
}
