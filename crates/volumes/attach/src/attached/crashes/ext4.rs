//! A real ext4 on a recorded volume: after every crash its file system is whole, and what was synced in it is there.

use super::legal::Judge;
use super::recorder::{Moment, Record, Recorder};
use super::{BLOCK, Crashes, Stepped, bring_home, new_files, open, submit};
use crate::attached::Attached;
use fixtures::installed::run;
use fixtures::mounts::{Fuse, Mounted, can_mount, check_ext4, copy_files};
use machines::Ack;
use nbd::{Address, Export, Operation, Server, ServerConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use vfs::memory::Dice;

const SIZE: usize = 6 << 20;

/// The blocks of the file system. Files are written in these units, each full of its version's number.
const UNIT: usize = 1024;

/// So many crashes are looked at; all, with `CRASHES=all`.
const CRASHES: usize = 40;

/// The application's knowledge of a file, from a time on.
#[derive(Debug)]
enum Known {
    /// The file system is made.
    Made,
    /// This version is being written.
    Begun(u8),
    /// It is synced, under its name.
    Synced(u8),
    /// It is being removed.
    Removing,
    /// And that is synced.
    Removed,
}

/// Everything that it knew, and since when.
type Notes = Vec<(usize, String, Known)>;

/// An application that syncs what it does.
struct Application<'a> {
    root: &'a Path,
    recorder: &'a Recorder,
    notes: Notes,
}

impl Application<'_> {
    fn note(&mut self, name: &str, known: Known) {
        self.notes.push((self.recorder.tick(), name.to_owned(), known));
    }

    fn write(&self, name: &str, version: u8, units: usize) {
        let mut file = File::options().create(true).write(true).truncate(false).open(self.root.join(name)).unwrap();
        file.write_all(&vec![version; units * UNIT]).unwrap();
        file.sync_all().unwrap();
    }

    /// Writes a new version over the old one.
    fn overwrite(&mut self, name: &str, version: u8) {
        self.note(name, Known::Begun(version));
        self.write(name, version, 12);
        self.note(name, Known::Synced(version));
    }

    /// Puts a new version, of another length, in the old one's place.
    fn replace(&mut self, name: &str, version: u8) {
        self.note(name, Known::Begun(version));
        self.write("next", version, 1 + usize::from(version));
        std::fs::rename(self.root.join("next"), self.root.join(name)).unwrap();
        self.sync_root();
        self.note(name, Known::Synced(version));
    }

    fn remove(&mut self, name: &str) {
        self.note(name, Known::Removing);
        std::fs::remove_file(self.root.join(name)).unwrap();
        self.sync_root();
        self.note(name, Known::Removed);
    }

    fn sync_root(&self) {
        File::open(self.root).unwrap().sync_all().unwrap();
    }

    /// Works, and waits at every second version until some of it has gone home.
    fn work(&mut self, volume: &Attached, dice: &mut Dice) {
        for version in 1..=10 {
            let write_backs = volume.status().write_backs;
            self.overwrite("over-1", version);
            self.replace("replaced", version);
            self.overwrite(&format!("once-{version}"), 1);
            if version > 2 && dice.roll(2) == 0 {
                self.remove(&format!("once-{}", version - 2));
            }
            self.overwrite("over-2", version);
            while version % 2 == 0 && volume.status().write_backs == write_backs {
                sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The state that a file must be in.
#[derive(Debug, Default)]
struct Expected {
    /// The oldest version that it may have; 0 if it need not be there.
    oldest: u8,
    newest: u8,
    may_be_gone: bool,
    must_be_gone: bool,
}

/// The files at a time, if what was known by `is_kept` is kept.
fn expected(notes: &Notes, time: usize, is_kept: impl Fn(usize) -> bool) -> BTreeMap<&str, Expected> {
    let mut files = BTreeMap::<&str, Expected>::new();
    for (at, name, known) in notes.iter().filter(|(at, ..)| *at <= time) {
        let file = files.entry(name).or_default();
        match known {
            Known::Begun(version) => file.newest = *version,
            Known::Synced(version) if is_kept(*at) => file.oldest = *version,
            Known::Removing => file.may_be_gone = true,
            Known::Removed if is_kept(*at) => file.must_be_gone = true,
            Known::Made | Known::Synced(_) | Known::Removed => {}
        }
    }
    files.remove("");
    files
}

/// Mounts the image as a start would, and looks at it.
struct Checker {
    folder: PathBuf,
}

impl Checker {
    fn check(&self, image: &[u8], files: &BTreeMap<&str, Expected>) -> Result<(), String> {
        let (file, out) = (self.folder.join("image"), self.folder.join("out"));
        std::fs::write(&file, image).unwrap();
        let file = file.to_str().unwrap();
        check_ext4(file).and_then(|()| copy_files(file, &out)).map_err(|error| error.to_string())?;
        let there: BTreeSet<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        for (name, expected) in files {
            let is_there = there.contains(std::ffi::OsStr::new(name));
            if is_there && expected.must_be_gone || !is_there && expected.oldest > 0 && !expected.may_be_gone {
                return Err(format!("{name} is there: {is_there}, where {expected:?}"));
            }
            if !is_there || expected.may_be_gone || expected.oldest == 0 {
                continue;
            }
            let bytes = std::fs::read(out.join(name)).unwrap();
            let units: Vec<_> = bytes.chunks(UNIT).map(|unit| unit[0]).collect();
            let is_torn = bytes.chunks(UNIT).any(|unit| unit.iter().any(|byte| *byte != unit[0]));
            let is_old = !units.iter().all(|version| (expected.oldest..=expected.newest).contains(version));
            let is_mixed = *name == "replaced" && units.len() != 1 + usize::from(units[0]);
            if is_torn || is_old || is_mixed || units.is_empty() {
                return Err(format!("{name} has {units:?}, where {expected:?}"));
            }
        }
        Ok(())
    }
}

/// Makes a file system on a volume and works in it; gives the recording and what the application knows.
fn record(folder: &Path) -> (Recorder, Notes) {
    let (home, cache) = new_files(SIZE as u64);
    let recorder = Recorder::default();
    recorder.watch(&home, &cache);
    let attached = Arc::new(Attached::run(open(&home, &cache, Ack::Flush)).unwrap());
    let device = recorder.device(attached.clone());
    let socket = folder.join("nbd");
    let export = Export { name: "disk".to_owned(), description: String::new(), device };
    let server = Server::start(&ServerConfig::new(Address::Unix(socket.clone())), vec![export]).unwrap();
    let mut disk = Fuse::new(&folder.join("fuse"), &socket).unwrap();
    let lazy = "lazy_itable_init=0,lazy_journal_init=0";
    run("mkfs.ext4", ["-q", "-F", "-b", &UNIT.to_string(), "-J", "size=1", "-E", lazy, &disk.file]).unwrap();
    let mut mounted = Mounted::new(folder.join("mounted"), &disk.file).unwrap();
    let root = mounted.path.clone();
    let mut application = Application { root: &root, recorder: &recorder, notes: Vec::new() };
    application.sync_root();
    application.note("", Known::Made);
    application.work(&attached, &mut Dice(1));
    let notes = application.notes;
    mounted.end();
    disk.end();
    server.stop(Duration::from_secs(10));
    (recorder, notes)
}

/// Crashes of a volume whose home is on a disk that keeps or loses whole blocks of the file system. An ext4 with a torn
/// superblock cannot be mounted, and a torn block of a file mixes two versions. With its cache the volume restores such
/// blocks, whatever the sectors of home's disk.
fn crashes_of(record: &Record, size: usize) -> Crashes<'_> {
    Crashes { home_sector: UNIT, ..Crashes::new(record, size, Ack::Flush, 7) }
}

/// ext4 works on the volume, which writes back in the meantime. Then the power fails at every moment since it was made.
#[test]
fn a_file_system_is_whole_after_every_crash() {
    if !can_mount() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("thorp-crashes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (recorder, notes) = record(&folder);
    let record = recorder.record();
    let made = notes[0].0;
    let moments: Vec<_> = record.moments.iter().filter(|moment| moment.time > made).collect();
    let step = if std::env::var("CRASHES").is_ok_and(|crashes| crashes == "all") { 1 } else { moments.len() / CRASHES };
    let mut crashes = crashes_of(&record, SIZE);
    let (checker, mut looked) = (Checker { folder: folder.clone() }, 0);
    let mut check = |moment: &Moment| {
        let judge = Judge::new(&record.history, SIZE, false);
        for (image, flush) in
            crashes.alone(moment, 1)?.into_iter().filter(|(_, flush)| *flush >= judge.last_flush(made)).take(2)
        {
            let checked = checker.check(&image, &expected(&notes, moment.time, |at| judge.last_flush(at) <= flush));
            checked.map_err(|why| format!("home alone: {why}"))?;
            looked += 1;
        }
        let (home, cache) =
            (moment.home.after_power_failure(&mut crashes.dice), moment.cache.after_power_failure(&mut crashes.dice));
        let image = crashes.with_cache(moment, &home, &cache)?;
        looked += 1;
        let checked = checker.check(&image, &expected(&notes, moment.time, |_| true));
        checked.map_err(|why| format!("with the cache: {why}"))
    };
    for moment in moments.iter().step_by(step.max(1)) {
        check(moment).unwrap_or_else(|why| panic!("at {}: {why}\n{:#?}", moment.time, folder));
    }
    eprintln!("{} moments, {:?} writes and flushes, {looked} file systems", moments.len(), record.history.len());
    assert!(looked > 50, "{looked}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A home alone, at every moment of two versions on their way there: the crashes that the file system is checked after
/// leave whole blocks of it.
#[test]
fn a_crash_leaves_whole_blocks_of_the_file_system() {
    const SMALL: usize = 4 * BLOCK;
    let (home, cache) = new_files(SMALL as u64);
    let recorder = Recorder::default();
    recorder.watch(&home, &cache);
    let core = Arc::new(open(&home, &cache, Ack::Flush));
    let device = recorder.device(Arc::new(Stepped(core.clone())));
    for version in [1, 2] {
        let data = vec![version; SMALL].into();
        submit(&*device, vec![Operation::Write { offset: 0, data, fua: false }]);
        submit(&*device, vec![Operation::Flush]);
        bring_home(&core);
    }
    let record = recorder.record();
    let (mut crashes, mut mixed) = (crashes_of(&record, SMALL), 0);
    for moment in &record.moments {
        for (image, _) in crashes.alone(moment, 8).unwrap() {
            let units: Vec<_> = image.chunks(UNIT).collect();
            assert!(units.iter().all(|unit| unit.iter().all(|byte| *byte == unit[0])), "a block is torn");
            mixed += usize::from(units.iter().any(|unit| unit[0] != units[0][0]));
        }
    }
    assert!(mixed > 4, "writes are torn between blocks: {mixed}");
}
