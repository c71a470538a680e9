//! A volume whose home is in another process, over TCP: this test's own program, started once more.

use crate::attached::{MIB, PATIENCE, end, work};
use crate::rig::{Folder, Random, Rig, ask};
use attach::control::{Action, Control, ControlError, ControlledVolume, Order, order};
use attach::{Ack, AttachConfig, AttachError, Attached, FarError, FarHome, HomeServer};
use fixtures::nbd_client::{Client, Command};
use fixtures::{Process, Signal, try_until};
use machines::messages::holder::{Epoch, Extent, VolumeId};
use net::Runtime;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

const DIR: &str = "THORP_TEST_HOMES";
const ADDRESS: &str = "THORP_TEST_ADDRESS";
pub(crate) const VOLUME: VolumeId = VolumeId(0x5EED);

/// The homes of another process.
pub(crate) struct Homes {
    process: Process,
    pub(crate) address: String,
}

impl Homes {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_at(dir, "127.0.0.1:0").unwrap()
    }

    fn start_at(dir: &Path, address: &str) -> Result<Self, fixtures::Error> {
        let mut command = Program::new(std::env::current_exe().unwrap());
        command.args(["--exact", "far::homes_of_this_process", "--nocapture"]).stdin(Stdio::piped());
        command.env(DIR, dir).env(ADDRESS, address);
        let process = Process::spawn(command, "homes")?;
        loop {
            if let Some((_, address)) = process.line()?.trim().split_once("homes at ") {
                return Ok(Self { process, address: address.to_owned() });
            }
        }
    }

    /// Kills it at once, unless it has ended before.
    pub(crate) fn stop(&mut self) {
        let _ = self.process.kill();
    }

    /// Kills it at once, and starts it again at the same address.
    pub(crate) fn restart(&mut self, dir: &Path) {
        self.stop();
        // The address of connections that were just broken may be taken for a moment.
        let start = || Self::start_at(dir, &self.address).ok();
        *self = try_until("it starts again", PATIENCE, start).unwrap();
    }
}

/// Not a test, but for the process that a test starts.
#[test]
fn homes_of_this_process() {
    let (Some(dir), Ok(address)) = (std::env::var_os(DIR), std::env::var(ADDRESS)) else { return };
    let homes = HomeServer::start(Path::new(&dir), &Runtime::start().unwrap()).unwrap();
    println!("homes at {}", homes.listen(address.parse().unwrap(), false).unwrap());
    let _ = std::io::stdin().read(&mut [0]);
}

pub(crate) fn raw(dir: &Path, volume: VolumeId) -> PathBuf {
    dir.join(format!("{:016x}.raw", volume.0))
}

pub(crate) fn config(folder: &Folder, cache: &str) -> AttachConfig {
    let config = AttachConfig::new(PathBuf::new(), folder.path(cache));
    AttachConfig { log_bytes: 4 * MIB, clean_bytes: 2 * MIB, ..config }
}

pub(crate) fn attach(home: FarHome, config: &AttachConfig) -> Arc<Attached> {
    Arc::new(Attached::attach_far(home, config).unwrap())
}

#[test]
fn a_volume_with_its_home_in_another_process_is_home_when_it_is_detached() {
    const LEN: u64 = 10 * MIB + 512;
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    drop(FarHome::create(&homes.address, VOLUME, 22 * MIB, &runtime).unwrap());
    for (round, ack) in [Ack::Flush, Ack::Write].into_iter().enumerate() {
        let home = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
        assert_eq!(home.size(), 22 * MIB);
        let attached = attach(home, &AttachConfig { ack, ..config(&folder, "cache") });
        assert_eq!(attached.status().epoch, round as u64 + 1);
        let rig = Rig::new(attached.clone());
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let work = |client: u64| {
                let mut connection = rig.connect();
                for at in (0..LEN).step_by(MIB as usize) {
                    let len = MIB.min(LEN - at) as u32;
                    ask(&mut connection, &Command::Zero { offset: client * LEN + at, len, flags: 0 });
                }
                work(&mut connection, client * LEN, LEN, 10 * round as u64 + client)
            };
            let clients = [0, 1].map(|client| scope.spawn(move || work(client)));
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        // Everything is read as it was written, from home where it is only there.
        assert!(rig.server.stop(PATIENCE));
        attached.detach().unwrap();
        let bytes = std::fs::read(raw(&dir, VOLUME)).unwrap();
        for (client, model) in models.iter().enumerate() {
            let first = client * LEN as usize;
            assert!(bytes[first..first + model.len()] == model[..], "the region of client {client}");
        }
    }
    let home = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let mut found = vec![0; 22 * MIB as usize];
    home.read(0, &mut found).unwrap();
    assert!(found == std::fs::read(raw(&dir, VOLUME)).unwrap());
    let runs = home.runs(Extent { offset: 0, len: 22 * MIB }).unwrap();
    assert_eq!(runs.iter().map(|run| run.len).sum::<u64>(), 22 * MIB);
}

/// Home is killed again and again while a volume is written, and started again: nobody who uses the volume learns of
/// it.
#[test]
fn a_home_that_is_killed_and_started_again_is_written_to_once_more() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let mut homes = Homes::start(&dir);
    let home = FarHome::create(&homes.address, VOLUME, 16 * MIB, &runtime).unwrap();
    let config = AttachConfig { age_max: Duration::from_millis(20), ..config(&folder, "cache") };
    let attached = attach(home, &config);
    let rig = Rig::new(attached.clone());
    let model: Vec<u8> = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut connection = rig.connect();
            (0..8).flat_map(|round| work(&mut connection, round * 2 * MIB, 2 * MIB, round)).collect()
        });
        let mut random = Random(17);
        while !worker.is_finished() {
            thread::sleep(Duration::from_millis(random.below(200)));
            homes.restart(&dir);
        }
        worker.join().unwrap()
    });
    assert!(rig.server.stop(PATIENCE));
    detach(&attached);
    assert!(std::fs::read(raw(&dir, VOLUME)).unwrap() == model);
}

/// Detaches, although home has just been killed.
fn detach(attached: &Attached) {
    let begun = Instant::now();
    while let Err(why) = attached.detach() {
        assert!(begun.elapsed() < PATIENCE, "{why}");
    }
}

#[test]
fn an_owner_whose_epoch_has_ended_is_refused_and_says_so() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    let config = config(&folder, "cache");
    let attached = attach(home, &config);
    let rig = Rig::new(attached.clone());
    let mut client = rig.connect();
    ask(&mut client, &Command::Write { offset: 0, data: &[1; 8192], fua: true });

    // Another host takes the volume.
    let other = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    assert!(matches!(other.fence(Epoch(1), 77), Err(FarError::Ended(Epoch(1)))), "that is the first owner's");
    other.fence(Epoch(2), 77).unwrap();
    other.fence(Epoch(2), 77).unwrap();
    assert!(matches!(other.fence(Epoch(2), 78), Err(FarError::Ended(Epoch(2)))));

    let why = attached.detach().unwrap_err();
    assert!(why.contains("epoch 2"), "{why}");
    assert!(attached.status().failed.is_some_and(|why| why.contains("epoch 2")));
    let error = client.call(&Command::Write { offset: 0, data: &[2; 4096], fua: true }).unwrap().error;
    assert_ne!(error, 0, "no write is taken any more");
    assert!(std::fs::read(raw(&dir, VOLUME)).unwrap().iter().all(|byte| *byte == 0), "nothing has come of it");
    drop(client);
    end(rig, &attached);
    drop(attached);

    // The cache has a write that never went home, and is not given up without a word.
    let again = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let refused = Attached::attach_far(again, &config).unwrap_err();
    assert!(matches!(refused, AttachError::Superseded(1)), "{refused}");
    let again = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let attached = attach(again, &AttachConfig { is_forced: true, ..config });
    assert_eq!((attached.status().epoch, attached.status().dirty_writes), (3, 0));
    attached.detach().unwrap();
}

/// Home has stopped in the middle of a write-back, and its session is there still.
#[test]
fn an_attachment_ends_although_home_does_not_answer() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let homes = Homes::start(&folder.path("homes"));
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    let config = AttachConfig { age_max: Duration::from_millis(20), ..config(&folder, "cache") };
    let attached = attach(home, &config);
    let rig = Rig::new(attached.clone());
    let mut client = rig.connect();
    let stopped = Program::new("kill").args(["-STOP", &homes.process.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    ask(&mut client, &Command::Write { offset: 0, data: &[1; 8192], fua: true });
    thread::sleep(Duration::from_millis(500));
    drop(client);
    end(rig, &attached);
    let begun = Instant::now();
    drop(attached);
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}

#[test]
fn a_cache_that_was_not_detached_goes_on_behind_the_mark() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    drop(FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap());
    let config = AttachConfig { age_max: Duration::from_secs(3600), ..config(&folder, "cache") };
    let mut model = vec![0; 4 * MIB as usize];
    for round in 1..=3_u8 {
        let home = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
        let attached = attach(home, &config);
        let before = usize::from(round - 1) * 4;
        assert_eq!(attached.status().dirty_writes, before, "of the rounds before");
        let rig = Rig::new(attached.clone());
        let mut client = rig.connect();
        for flush in 0..4_u8 {
            let at = usize::from(round) * 8192 + usize::from(flush) * 4096;
            let data = [16 * round + flush; 8192];
            ask(&mut client, &Command::Write { offset: at as u64, data: &data, fua: false });
            ask(&mut client, &Command::Flush);
            model[at..at + 8192].copy_from_slice(&data);
        }
        let read = ask(&mut client, &Command::Read { offset: 0, len: 4 << 20, whole: true });
        assert!(read.data == model, "round {round}");
        drop(client);
        end(rig, &attached);
        if round == 3 {
            attached.detach().unwrap();
        }
    }
    assert!(std::fs::read(raw(&dir, VOLUME)).unwrap() == model);
}

#[test]
fn a_volume_has_another_size_is_copied_and_is_removed() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    home.fence(Epoch(1), 7).unwrap();
    home.resize(Epoch(1), 6 * MIB).unwrap();
    assert_eq!((home.size(), std::fs::metadata(raw(&dir, VOLUME)).unwrap().len()), (6 * MIB, 6 * MIB));
    assert!(matches!(home.resize(Epoch(0), 4 * MIB), Err(FarError::Ended(Epoch(1)))));
    assert!(matches!(home.resize(Epoch(1), 4097), Err(FarError::Size(4097))));

    // Where the file system shares no blocks it says so, and there is no half of a volume.
    let copy = VolumeId(0xC0B1);
    match home.snapshot(copy) {
        Ok(()) => assert_eq!(FarHome::connect(&homes.address, copy, &runtime).unwrap().size(), 6 * MIB),
        Err(error) => {
            assert!(error.to_string().contains("cannot share blocks"), "{error}");
            let none = FarHome::connect(&homes.address, copy, &runtime).unwrap_err();
            assert!(matches!(none, FarError::NoVolume(_, volume) if volume == copy), "{none}");
        }
    }

    let again = FarHome::create(&homes.address, VOLUME, 6 * MIB, &runtime).unwrap_err();
    assert!(matches!(again, FarError::Exists(_, VOLUME)), "{again}");
    let other = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let used = other.with_patience(Duration::from_millis(100)).remove(Epoch(1)).unwrap_err();
    assert!(matches!(used, FarError::Busy(_)), "{used}");
    let begun = Instant::now();
    while let Err(error) = home.remove(Epoch(1)) {
        assert!(matches!(error, FarError::Busy(_)) && begun.elapsed() < PATIENCE, "{error}");
    }
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name()).collect();
    let is_left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("0000000000005eed");
    assert!(!files.iter().any(is_left), "{files:?}");
    let gone = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap_err();
    assert!(matches!(gone, FarError::NoVolume(..)), "{gone}");
}

/// A client that reads in order finds what it reads next in the cache, and never anything that was written over.
#[test]
fn a_client_that_reads_in_order_is_read_ahead_for() {
    const LEN: u64 = 8 * MIB;
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    drop(FarHome::create(&homes.address, VOLUME, 16 * MIB, &runtime).unwrap());
    let bytes: Vec<u8> = (0..16 * MIB / 8).flat_map(u64::to_le_bytes).collect();
    std::fs::write(raw(&dir, VOLUME), &bytes).unwrap();
    let home = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let config = AttachConfig { clean_bytes: 16 * MIB, age_max: Duration::from_millis(5), ..config(&folder, "cache") };
    let attached = attach(home, &config);
    let rig = Rig::new(attached.clone());
    let read = |client: &mut Client, offset: u64| ask(client, &Command::Read { offset, len: 4096, whole: true }).data;
    let mut client = rig.connect();
    for offset in (0..LEN).step_by(4096) {
        assert!(read(&mut client, offset) == bytes[offset as usize..][..4096], "{offset}");
    }
    let reads = attached.status().reads;
    assert!(reads.home < 50 && reads.clean > 1990, "{reads:?}");
    // So do those that a client says it will read.
    ask(&mut client, &Command::Cache { offset: 12 * MIB, len: 65536 });
    read(&mut client, 12 * MIB);
    assert_eq!(attached.status().reads.home, reads.home);
    for offset in (0..16 * MIB).step_by(MIB as usize) {
        ask(&mut client, &Command::Zero { offset, len: MIB as u32, flags: 0 });
    }
    // Others write there and read again what they wrote, while it all goes home and is read ahead.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|number| {
                let rig = &rig;
                scope.spawn(move || work(&mut rig.connect(), number * LEN, LEN, number))
            })
            .collect();
        scope.spawn(|| {
            let mut client = rig.connect();
            while !is_over.load(SeqCst) {
                (0..16 * MIB).step_by(16384).for_each(|offset| drop(read(&mut client, offset)));
            }
        });
        let models: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        is_over.store(true, SeqCst);
        for (number, model) in models.into_iter().map(Result::unwrap).enumerate() {
            let mut client = rig.connect();
            for (at, expected) in model.chunks(4096).enumerate() {
                let offset = number as u64 * LEN + at as u64 * 4096;
                assert!(read(&mut client, offset)[..expected.len()] == *expected, "{offset}");
            }
        }
    });
    drop(client);
    assert!(rig.server.stop(PATIENCE));
    attached.detach().unwrap();
}

/// Home gives the volume a size, or shares its blocks, while its owner writes home: that waits, and is no failure.
#[test]
fn a_home_that_does_something_else_is_waited_for() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let homes = Homes::start(&folder.path("homes"));
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    // However long it is busy: the patience is for one that is away.
    let home = home.with_patience(Duration::from_millis(20));
    let config = AttachConfig { age_max: Duration::from_millis(4), ..config(&folder, "cache") };
    let attached = Arc::new(Attached::attach_far(home, &config).unwrap());
    let rig = Rig::new(attached.clone());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let other = FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
                while !is_over.load(SeqCst) {
                    other.resize(Epoch(1), 4 * MIB).unwrap();
                }
            });
        }
        let mut client = rig.connect();
        for round in 0..200_u64 {
            let data = [round as u8; 4096];
            ask(&mut client, &Command::Write { offset: 4096 * round, data: &data, fua: true });
            assert_eq!(attached.status().home_error, None, "write {round}");
        }
        drop(client);
        assert!(rig.server.stop(PATIENCE));
        let detached = attached.detach();
        is_over.store(true, SeqCst);
        detached.unwrap();
    });
}

/// An operator who wants everything home while home is unreachable may think otherwise, and ask again.
#[test]
fn who_waits_for_home_may_give_that_up() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let mut homes = Homes::start(&dir);
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    let config = AttachConfig { age_max: Duration::from_secs(600), ..config(&folder, "cache") };
    let attached = Arc::new(Attached::attach_far(home, &config).unwrap());
    let rig = Rig::new(attached.clone());
    ask(&mut rig.connect(), &Command::Write { offset: 0, data: &[7; 4096], fua: true });
    homes.process.kill().unwrap();
    let _control = control(&rig, &attached, &config);
    let bring_home = Order { volume: format!("{:016x}", VOLUME.0), action: Action::BringHome };
    for round in 0..2 {
        // It is noticed within a moment that the one before has gone.
        let begun = Instant::now();
        loop {
            let asked = Instant::now();
            match order(&config.cache, &bring_home, &|| asked.elapsed() > Duration::from_millis(200)) {
                Err(ControlError::GivenUp) => break,
                refused => assert!(begun.elapsed() < PATIENCE, "round {round}: {refused:?}"),
            }
        }
    }
    homes.restart(&dir);
    let begun = Instant::now();
    while let Err(refused) = order(&config.cache, &bring_home, &|| false) {
        assert!(begun.elapsed() < PATIENCE, "{refused}");
    }
    assert_eq!(std::fs::read(raw(&dir, VOLUME)).unwrap()[0], 7);
    assert!(rig.server.stop(PATIENCE));
    attached.detach().unwrap();
}

fn control(rig: &Rig, attached: &Arc<Attached>, config: &AttachConfig) -> Control {
    let controlled = ControlledVolume {
        name: "v".into(),
        attached: attached.clone(),
        server: rig.server.watch(),
        listen: Vec::new(),
        dirty_bytes_max: config.log_bytes,
        since: Instant::now(),
        scrubbing: None,
    };
    Control::start(&config.cache, Arc::new(controlled)).unwrap()
}

/// Home is stopped in the middle of a resize. The operator who waits for that gives up, and is in nobody's way: the
/// next one waits for its turn, and home continues with what it was told.
#[test]
fn a_resize_that_is_given_up_is_in_nobodys_way() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let homes = Homes::start(&folder.path("homes"));
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    let config = AttachConfig { age_max: Duration::from_secs(600), ..config(&folder, "cache") };
    let attached = Arc::new(Attached::attach_far(home, &config).unwrap());
    let rig = Rig::new(attached.clone());
    ask(&mut rig.connect(), &Command::Write { offset: 0, data: &[7; 4096], fua: true });
    let _control = control(&rig, &attached, &config);
    let volume = format!("{:016x}", VOLUME.0);
    let resize = Order { volume: volume.clone(), action: Action::Resize { size: 8 * MIB, may_shrink: false } };
    homes.process.signal(Signal::STOP).unwrap();
    for round in 0..2 {
        let begun = Instant::now();
        loop {
            let asked = Instant::now();
            match order(&config.cache, &resize, &|| asked.elapsed() > Duration::from_millis(200)) {
                Err(ControlError::GivenUp) => break,
                refused => assert!(begun.elapsed() < PATIENCE, "round {round}: {refused:?}"),
            }
            // It is noticed within a moment that the one before has gone.
            assert!(begun.elapsed() < Duration::from_secs(5), "round {round}: another command is under way for ever");
        }
    }
    assert_eq!(attached.status().size, 4 * MIB);
    homes.process.signal(Signal::CONT).unwrap();
    let (begun, bring_home) = (Instant::now(), Order { volume, action: Action::BringHome });
    for order_of in [bring_home, resize] {
        while let Err(refused) = order(&config.cache, &order_of, &|| false) {
            assert!(begun.elapsed() < PATIENCE, "{refused}");
        }
    }
    assert_eq!((attached.status().size, attached.status().home_error), (8 * MIB, None));
    let home = std::fs::read(raw(&folder.path("homes"), VOLUME)).unwrap();
    assert_eq!((home[0], home.len() as u64), (7, 8 * MIB));
    assert!(rig.server.stop(PATIENCE));
    attached.detach().unwrap();
}
