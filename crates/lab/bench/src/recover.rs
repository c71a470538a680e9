//! Recovery: how fast a store reads its log after a crash, against the same files read from one end to the other.

use crate::{Line, Place, Result};
use fixtures::Process;
use objects::{Anywhere, Db};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The bytes that one commit adds to the log.
const OBJECT_BYTES: usize = 1 << 20;

/// How often the files are read and the store is started.
const TURNS: usize = 3;

pub(crate) fn measure(place: &Place, gib: f64, progress: &dyn Fn(&str)) -> Result<Line> {
    let mib = (gib * 1024.0).ceil() as u64;
    progress("fill the log");
    // Room for everything in memory, so that nothing is written home and the log keeps it all.
    let (dir, room) = (place.dir.join("store"), (2 * mib + 64).to_string());
    let mut server = place.serve_with("store", &["--mob-mib", &room])?;
    fill(&Db::connect(server.address())?, mib)?;
    server.kill()?;
    let (mut reads, mut recoveries, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        progress("read the files");
        reads.push(read_mib_per_s(&dir)?);
        progress("recover");
        drop_cached(&dir)?;
        server.start_again()?;
        let (mib, took) = recovered(&server)?;
        recoveries.push(mib / took);
        seconds.push(took);
        server.kill()?;
    }
    let ratios = recoveries.iter().zip(&reads).map(|(recover, read)| recover / read).collect();
    let line = Line::new("recover")
        .count("mib", mib)
        .figure("seconds", crate::sample::median(seconds))
        .figure("mib_per_s", crate::sample::median(recoveries))
        .figure("read_mib_per_s", crate::sample::median(reads))
        .figure("over_read", crate::sample::median(ratios));
    Ok(line)
}

fn fill(db: &Db, mib: u64) -> Result<()> {
    let mut value = vec![0_u8; OBJECT_BYTES];
    for number in 0..mib {
        // Not compressible by a disk that would like to.
        value.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i as u64 * (number + 31)) >> 5) as u8);
        db.transact(|tx| tx.create_bytes(Anywhere, &value))?;
    }
    Ok(())
}

/// The store's report of its recovery: MiB that it read, and seconds.
fn recovered(server: &Process) -> Result<(f64, f64)> {
    let figure = |name: &str| {
        let value = server.ready()["recovery"][name].as_f64();
        value.ok_or_else(|| format!("the store does not say its recovery's `{name}`"))
    };
    Ok((figure("bytes")? / f64::from(1 << 20), figure("seconds")?))
}

/// The rate at which all files of the directory are read, one after the other, from the disk.
fn read_mib_per_s(dir: &Path) -> Result<f64> {
    drop_cached(dir)?;
    let start = Instant::now();
    let bytes = read_all(dir)?;
    Ok(bytes as f64 / f64::from(1 << 20) / start.elapsed().as_secs_f64())
}

/// Reads all files of the directory, one after the other. Returns their bytes.
///
/// # Errors
/// A file cannot be read.
pub fn read_all(dir: &Path) -> Result<usize> {
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    for path in files(dir)? {
        let mut file = File::open(path)?;
        fadvise(&file, 0, None, Advice::Sequential)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => bytes += read,
            }
        }
    }
    Ok(bytes)
}

/// Asks the system to forget what it has cached of the files, as after a crash of the machine.
///
/// # Errors
/// A file cannot be opened.
pub fn drop_cached(dir: &Path) -> Result<()> {
    for path in files(dir)? {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
