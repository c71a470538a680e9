//! A holder over TCP, with its log in a folder: what it has counted is there after it has died at any moment.

use super::folder::Folder;
use super::{FolderError, HolderError, HolderNames, HolderServer, HolderSettings};
use crate::links::{Link, Listener, News};
use machines::Registered;
use machines::messages::holder::{
    Content, Copy, Entry, Epoch, Extent, Fetch, FlushEpoch, Free, FromHolder, List, Open, PartitionId, Record,
    Sequence, Stamp, Stream, ToHolder, VolumeId,
};
use net::Runtime;
use registry::MemoryRegistry;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use vfs::memory::{Dice, Memory};

const PATIENCE: Duration = Duration::from_secs(20);
const ONE: VolumeId = VolumeId(1);
const TWO: VolumeId = VolumeId(2);

/// A folder that is removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("thorp-test-holder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn settings(dir: &Path, room: u64) -> HolderSettings {
    HolderSettings { dir: dir.join("r"), room, listen: "127.0.0.1:0".parse().unwrap(), insecure: false }
}

/// Starts a holder, when the one before has let go of the folder: a thread of its may be about to.
pub(crate) fn start_with(dir: &Path, room: u64, runtime: &Runtime) -> HolderServer {
    let begun = Instant::now();
    loop {
        match HolderServer::start(&settings(dir, room), runtime) {
            Err(HolderError::Folder(FolderError::InUse(_))) if begun.elapsed() < PATIENCE => thread::yield_now(),
            started => return started.unwrap(),
        }
    }
}

pub(crate) fn start(dir: &Path, runtime: &Runtime) -> HolderServer {
    start_with(dir, 32 << 20, runtime)
}

/// An owner, or a host that takes over, by hand.
pub(crate) struct Party {
    link: Arc<Link>,
    heard: Receiver<News>,
    _ears: Arc<Ears>,
    credit: u64,
    sent: u64,
    counted: u64,
    said: VecDeque<FromHolder>,
}

struct Ears {
    link: OnceLock<Arc<Link>>,
    heard: Mutex<Sender<News>>,
}

impl Listener for Ears {
    fn news(&self, _: PartitionId) {
        if let Some(link) = self.link.get() {
            let heard = self.heard.lock().unwrap();
            link.line().take().into_iter().for_each(|news| heard.send(news).unwrap());
        }
    }
}

impl Party {
    pub(crate) fn new(holder: &HolderServer, runtime: &Runtime) -> Self {
        let (heard, hears) = channel();
        let ears = Arc::new(Ears { link: OnceLock::new(), heard: Mutex::new(heard) });
        let weak: std::sync::Weak<Ears> = Arc::downgrade(&ears);
        let link = Link::open(holder.partition(), holder.address().to_string(), runtime, weak);
        assert!(ears.link.set(link.clone()).is_ok());
        ears.news(holder.partition());
        let party = Self { link, heard: hears, _ears: ears, credit: 0, sent: 0, counted: 0, said: VecDeque::new() };
        while !matches!(party.news(), News::Up) {}
        party
    }

    fn news(&self) -> News {
        self.heard.recv_timeout(PATIENCE).expect("the holder has something to say")
    }

    fn say(&self, message: impl Into<ToHolder>) {
        self.link.line().push(message.into());
        self.link.settle();
    }

    /// The next message that is no count.
    fn hear(&mut self) -> FromHolder {
        loop {
            if let Some(said) = self.said.pop_front() {
                return said;
            }
            self.hear_one();
        }
    }

    fn hear_one(&mut self) {
        match self.news() {
            News::Heard(FromHolder::Counted(counted)) => {
                (self.credit, self.counted) = (counted.credit, counted.live.0);
            }
            News::Heard(said) => self.said.push_back(said),
            News::Up | News::Down => panic!("the session is lost"),
        }
    }

    fn open(&mut self, volume: VolumeId, epoch: u64) -> (u64, PartitionId) {
        self.say(Open { volume, epoch: Epoch(epoch), revision: 1, home: Stamp::ZERO });
        match self.hear() {
            FromHolder::Opened(opened) => {
                (self.credit, self.sent) = (opened.credit, 0);
                (opened.live.0, opened.partition)
            }
            other => panic!("expected Opened, got {other:?}"),
        }
    }

    /// Sends a copy when there is room for it.
    fn copy(&mut self, sequence: u64, bytes: usize) {
        let content = content(sequence, bytes);
        self.sent += content.copy_bytes();
        while self.sent > self.credit {
            self.hear_one();
        }
        let extent = Extent { offset: sequence * 4096, len: bytes as u64 };
        self.say(Copy { stream: Stream::Live, record: Record { stamp: stamp(sequence), extent, content } });
    }

    fn await_counted(&mut self, sequence: u64) {
        while self.counted < sequence {
            self.hear_one();
        }
    }

    /// The contents of everything that is listed.
    fn take_over(&mut self, volume: VolumeId, epoch: u64) -> Vec<(u64, Option<Content>)> {
        let copies = self.take_over_with(volume, epoch).into_iter();
        copies.map(|(entry, content)| (entry.stamp.sequence.0, content)).collect()
    }

    /// The same with everything that is said of each.
    pub(crate) fn take_over_with(&mut self, volume: VolumeId, epoch: u64) -> Vec<(Entry, Option<Content>)> {
        let (mut copies, mut after) = (Vec::new(), Stamp::ZERO);
        loop {
            self.say(List { volume, epoch: Epoch(epoch), after });
            let listed = match self.hear() {
                FromHolder::Listed(listed) => listed,
                other => panic!("expected Listed, got {other:?}"),
            };
            copies.extend(listed.copies);
            if listed.is_last {
                break;
            }
            after = copies.last().unwrap().stamp;
        }
        let fetched = copies.into_iter().map(|entry: Entry| {
            self.say(Fetch { stamp: entry.stamp });
            match self.hear() {
                FromHolder::Kept(kept) => (entry, kept.record.map(|(_, content)| content)),
                other => panic!("expected Kept, got {other:?}"),
            }
        });
        fetched.collect()
    }
}

fn stamp(sequence: u64) -> Stamp {
    Stamp { epoch: Epoch(1), sequence: Sequence(sequence), flush: FlushEpoch(1) }
}

fn content(sequence: u64, bytes: usize) -> Content {
    Content::Data(vec![sequence as u8; bytes].into())
}

#[test]
fn counted_copies_are_there_after_a_restart_and_freed_ones_make_room() {
    let (scratch, runtime) = (Scratch::new("restart"), Runtime::start().unwrap());
    let holder = start(&scratch.0, &runtime);
    let partition = holder.partition();
    let mut owner = Party::new(&holder, &runtime);
    assert_eq!(owner.open(ONE, 1), (0, partition));
    (1..=100).for_each(|sequence| owner.copy(sequence, 4096));
    owner.await_counted(100);
    owner.say(Free { through: stamp(90) });
    while holder.status().used != 10 * (4096 + 512) {
        owner.hear_one();
    }
    assert_eq!(holder.volumes(), [ONE]);
    drop((owner, holder));

    // Not closed: it stands where a kill would have left it.
    let holder = start(&scratch.0, &runtime);
    assert_eq!(holder.partition(), partition);
    let mut owner = Party::new(&holder, &runtime);
    assert_eq!(owner.open(ONE, 1).0, 100);
    owner.say(Free { through: stamp(90) });
    owner.copy(101, 100_000);
    owner.await_counted(101);
    let mut taker = Party::new(&holder, &runtime);
    let expected: Vec<_> = (91..=100).map(|it| (it, 4096)).chain([(101, 100_000)]).collect();
    let expected: Vec<_> = expected.into_iter().map(|(it, bytes)| (it, Some(content(it, bytes)))).collect();
    assert_eq!(taker.take_over(ONE, 2), expected);
    assert!(matches!(owner.hear(), FromHolder::Refused(refused) if refused.epoch == Epoch(2)));
    drop((owner, taker, holder));

    // The newer epoch was on its disk before it was answered.
    let holder = start(&scratch.0, &runtime);
    let mut late = Party::new(&holder, &runtime);
    late.say(Open { volume: ONE, epoch: Epoch(1), revision: 1, home: Stamp::ZERO });
    assert!(matches!(late.hear(), FromHolder::Refused(refused) if refused.epoch == Epoch(2)));
}

/// A holder on a directory in memory.
fn start_on(files: &Memory, runtime: &Runtime) -> HolderServer {
    let settings = settings(Path::new("memory"), 16 << 20);
    let folder = Folder::open_in(Arc::new(files.clone()), &settings.dir, settings.room, None).unwrap();
    HolderServer::start_in(folder, &settings, runtime).unwrap()
}

/// The power fails at moments of a holder's life: everything that was counted by then and not freed is there, and
/// nothing that is there is torn.
#[test]
fn counted_copies_are_there_after_a_power_failure() {
    let (runtime, files) = (Runtime::start().unwrap(), Memory::default());
    // The copies that are counted, and those that are freed, and the files.
    let heard = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let moments = Arc::new(Mutex::new(Vec::new()));
    let holder = start_on(&files, &runtime);
    let partition = holder.partition();
    let (told, written) = (heard.clone(), moments.clone());
    files.watch(move |now| written.lock().unwrap().push((told.0.load(SeqCst), told.1.load(SeqCst), now)));
    let mut owner = Party::new(&holder, &runtime);
    owner.open(ONE, 1);
    for sequence in 1..=60 {
        owner.copy(sequence, 4096 * (1 + sequence as usize * 7 % 40));
        if sequence.is_multiple_of(3) {
            owner.await_counted(sequence);
            heard.0.store(sequence, SeqCst);
        }
        if sequence.is_multiple_of(20) {
            heard.1.store(sequence - 10, SeqCst);
            owner.say(Free { through: stamp(sequence - 10) });
        }
    }
    drop((owner, holder));
    let (mut dice, moments) = (Dice(5), std::mem::take(&mut *moments.lock().unwrap()));
    assert!(moments.len() > 60, "{}", moments.len());
    for (counted, freed, files) in moments.into_iter().step_by(2) {
        let holder = start_on(&files.after_power_failure(&mut dice), &runtime);
        assert_eq!(holder.partition(), partition);
        let found: BTreeMap<_, _> = Party::new(&holder, &runtime).take_over(ONE, 2).into_iter().collect();
        for sequence in freed + 1..=counted {
            assert!(found.contains_key(&sequence), "copy {sequence} of those counted through {counted} is lost");
        }
        for (sequence, found) in found {
            let bytes = 4096 * (1 + sequence as usize * 7 % 40);
            assert!(found == Some(content(sequence, bytes)), "copy {sequence} is torn");
        }
    }
}

/// A volume whose home is unreachable for long is not in the way of others: its copies are moved, and stay.
#[test]
fn a_log_that_is_full_of_what_is_not_needed_is_cleaned() {
    let (scratch, runtime) = (Scratch::new("clean"), Runtime::start().unwrap());
    let holder = start(&scratch.0, &runtime);
    let (mut slow, mut busy) = (Party::new(&holder, &runtime), Party::new(&holder, &runtime));
    slow.open(ONE, 1);
    busy.open(TWO, 1);
    for round in 0..10 {
        slow.copy(round + 1, 20_000);
        slow.await_counted(round + 1);
        for sequence in round * 200 + 1..=(round + 1) * 200 {
            busy.copy(sequence, 64 << 10);
            if sequence % 8 == 0 {
                busy.say(Free { through: stamp(sequence - 8) });
            }
        }
        busy.await_counted((round + 1) * 200);
    }
    // 125 MiB went through 32.
    let files = std::fs::read_dir(scratch.0.join("r")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 36 << 20, "its files have {bytes} bytes");
    drop((slow, busy, holder));
    let holder = start(&scratch.0, &runtime);
    let expected: Vec<_> = (1..=10).map(|sequence| (sequence, Some(content(sequence, 20_000)))).collect();
    assert_eq!(Party::new(&holder, &runtime).take_over(ONE, 2), expected);
}

#[test]
fn a_damaged_copy_is_said_to_be_none() {
    let (scratch, runtime) = (Scratch::new("damage"), Runtime::start().unwrap());
    let holder = start(&scratch.0, &runtime);
    let mut owner = Party::new(&holder, &runtime);
    owner.open(ONE, 1);
    (1..=3).for_each(|sequence| owner.copy(sequence, 4096));
    owner.await_counted(3);
    let damaged = std::fs::read_dir(scratch.0.join("r")).unwrap().any(|file| {
        let path = file.unwrap().path();
        // One that is being made is gone under its name a moment later.
        let Ok(mut bytes) = std::fs::read(&path) else { return false };
        let found = bytes.windows(64).position(|window| window == [2; 64]);
        found.inspect(|at| bytes[at + 32] ^= 1).map(|_| std::fs::write(&path, bytes).unwrap()).is_some()
    });
    assert!(damaged, "the second copy stands in some file");
    let kept = Party::new(&holder, &runtime).take_over(ONE, 2);
    assert_eq!(kept, [(1, Some(content(1, 4096))), (2, None), (3, Some(content(3, 4096)))]);
}

#[test]
fn folders_that_are_none_of_a_holder_are_refused() {
    let (scratch, runtime) = (Scratch::new("folders"), Runtime::start().unwrap());
    let error = |room| HolderServer::start(&settings(&scratch.0, room), &runtime).unwrap_err().to_string();
    assert!(error(1 << 20).contains("expected 16777216 to"));
    let holder = start(&scratch.0, &runtime);
    assert!(error(32 << 20).contains("used by another process"));
    drop(holder);
    drop(start(&scratch.0, &runtime));
    std::fs::remove_file(scratch.0.join("r/thorp-holder")).unwrap();
    let missing = || error(32 << 20).contains("its file thorp-holder is missing");
    assert!((0..100).any(|_| missing() || {
        thread::sleep(Duration::from_millis(50));
        false
    }));
}

/// Volumes come and go, and a holder knows no more than this many.
#[test]
fn a_volume_that_the_registry_has_not_is_forgotten_when_nothing_is_kept_of_it() {
    let (scratch, runtime, registry) = (Scratch::new("forgotten"), Runtime::start().unwrap(), MemoryRegistry::new());
    registry.create(TWO, Registered::new(1 << 20, 2, Duration::from_secs(1)));
    let holder = start(&scratch.0, &runtime);
    let mut owners = [ONE, TWO].map(|volume| {
        let mut owner = Party::new(&holder, &runtime);
        owner.open(volume, 1);
        owner
    });
    owners[0].copy(1, 4096);
    owners[0].await_counted(1);
    owners[0].say(Free { through: stamp(1) });
    while holder.status().used > 0 {
        owners[0].hear_one();
    }
    let names = HolderNames { name: "one".into(), domain: "rack".into(), address: holder.address().to_string() };
    holder.register(Arc::new(registry), names).unwrap();
    thread::sleep(Duration::from_millis(700));
    assert_eq!(holder.hosted.idle_after(None), None, "both are open");
    drop(owners);
    let begun = Instant::now();
    let has_both_looked_at = || begun.elapsed() > Duration::from_secs(2);
    while !has_both_looked_at() || holder.hosted.idle_after(None) != Some(TWO) {
        assert!(begun.elapsed() < PATIENCE, "it knows of one that nobody has");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(holder.hosted.idle_after(Some(TWO)), None);
}

/// A folder with less room than copies take in it promises nothing until they are written back.
#[test]
fn a_holder_that_gets_less_room_keeps_what_it_has() {
    let (scratch, runtime) = (Scratch::new("less"), Runtime::start().unwrap());
    let holder = start(&scratch.0, &runtime);
    let mut owner = Party::new(&holder, &runtime);
    owner.open(ONE, 1);
    (1..=100).for_each(|sequence| owner.copy(sequence, 128 << 10));
    owner.await_counted(100);
    drop((owner, holder));
    let holder = start_with(&scratch.0, 16 << 20, &runtime);
    let mut owner = Party::new(&holder, &runtime);
    owner.open(ONE, 1);
    assert_eq!((owner.credit, holder.status().free), (0, 0));
    owner.say(Free { through: stamp(99) });
    owner.copy(101, 128 << 10);
    owner.await_counted(101);
    let kept = Party::new(&holder, &runtime).take_over(ONE, 2);
    assert_eq!(kept, [100, 101].map(|it| (it, Some(content(it, 128 << 10)))));
}
