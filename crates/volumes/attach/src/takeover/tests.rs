//! Takeovers with a home and a holder that run, over TCP; and an owner that has sent copies and is gone.

use super::*;
use crate::extents::BLOCK;
use crate::holder::{HolderNames, HolderServer, HolderSettings, RescueSettings, RescueWord};
use crate::house::HomeServer;
use crate::links::{Link, Listener, News};
use bytes::Bytes;
use machines::messages::holder::{Copy, FlushEpoch, Open, Sequence, Stream};
use machines::messages::home::Begin;
use machines::{AcceptedLoss, Acknowledged, Content, Extent, FromHolder, Record, Registered};
use registry::MemoryRegistry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Condvar, Mutex, Weak};
use std::time::Instant;

const VOLUME: VolumeId = VolumeId(7);
const OLD: HostId = HostId(1);
const SIZE: u64 = 8 << 20;
const LEASE: Duration = Duration::from_secs(1);

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A registry with a volume, its home, and a holder of it.
struct Rig {
    folder: PathBuf,
    runtime: Runtime,
    registry: MemoryRegistry,
    _homes: HomeServer,
    /// Where they are reached.
    home: Arc<FarHome>,
    holder: Option<HolderServer>,
}

impl Rig {
    fn new() -> Self {
        Self::with_lease(LEASE)
    }

    fn with_lease(lease: Duration) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, SeqCst);
        let folder = std::env::temp_dir().join(format!("thorp-takeover-{}-{number}", std::process::id()));
        let runtime = Runtime::start().unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let homes = HomeServer::start(&folder.join("homes"), &runtime).unwrap();
        let address = homes.listen(([127, 0, 0, 1], 0).into(), false).unwrap().to_string();
        let home = Arc::new(FarHome::create(&address, VOLUME, SIZE, &runtime).unwrap());
        home.fence(Epoch(1), OLD.0).unwrap();
        let begun = Begin { epoch: Epoch(1), through: Stamp::begin(Epoch(1)), is_joined: false };
        home.write_back_once(begun, &mut |_| Ok(())).unwrap();
        let registry = MemoryRegistry::new();
        registry.homes_are_at(&address);
        let holder = start_holder(&folder, &registry, &runtime);
        let entry = Registered {
            epoch: Epoch(1),
            owner: Some(OLD),
            holders: vec![holder.partition()],
            ..Registered::new(SIZE, 2, lease)
        };
        registry.create(VOLUME, entry);
        Self { folder, runtime, registry, _homes: homes, home, holder: Some(holder) }
    }

    fn holder(&self) -> &HolderServer {
        self.holder.as_ref().unwrap()
    }

    /// Stops the holder, and starts it with the directory of this name in the place of its own.
    fn put_back_copies(&mut self, older: &str) {
        self.holder.take().unwrap().stop();
        let [dir, older] = ["copies", older].map(|name| self.folder.join(name));
        // Its threads may write files until they give up its lock.
        let begun = Instant::now();
        while let Err(error) = HolderServer::make_anew(&holder_settings(&self.folder), &mut |_| {}) {
            assert!(begun.elapsed() < LONG, "it does not end: {error}");
            thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::rename(older, dir).unwrap();
        self.holder = Some(start_holder(&self.folder, &self.registry, &self.runtime));
    }

    /// The owner's heartbeat: the holder has acknowledged these writes.
    fn acknowledge(&self, through: u64) {
        let (partition, epoch) = (self.holder().partition(), Epoch(1));
        let View { revision, mut entry } = self.registry.view(VOLUME).unwrap();
        entry.acknowledged = vec![Acknowledged { partition, epoch, from: Sequence(1), through: Sequence(through) }];
        self.registry.change(VOLUME, Change { expects: revision, entry }).unwrap();
    }

    /// The owner sends copies, all of which are counted, and is gone.
    fn leave_copies(&self, writes: &[(u64, u64, Content)]) {
        let heard = Arc::new(Counts::default());
        let listener: Arc<dyn Listener> = heard.clone();
        let weak: Weak<dyn Listener> = Arc::downgrade(&listener);
        let link = Link::open(self.holder().partition(), self.holder().address().to_string(), &self.runtime, weak);
        let revision = self.registry.view(VOLUME).unwrap().revision;
        heard.wait_until(&link, |news| matches!(news, News::Up));
        let open = Open { volume: VOLUME, epoch: Epoch(1), revision, home: Stamp::begin(Epoch(1)) };
        link.line().push(open.into());
        link.settle();
        heard.wait_until(&link, |news| matches!(news, News::Heard(FromHolder::Opened(_))));
        for (sequence, (flush, first, content)) in (1..).zip(writes) {
            let stamp = Stamp { epoch: Epoch(1), sequence: Sequence(sequence), flush: FlushEpoch(*flush) };
            let len = content.len().max(BLOCK as u64);
            let extent = Extent { offset: first * BLOCK as u64, len };
            let record = Record { stamp, extent, content: content.clone() };
            link.line().push(Copy { stream: Stream::Live, record }.into());
        }
        link.settle();
        let all = Sequence(writes.len() as u64);
        heard
            .wait_until(&link, |news| matches!(news, News::Heard(FromHolder::Counted(counted)) if counted.live == all));
        link.close();
    }

    fn settings(&self, host: u64) -> TakeOverSettings {
        TakeOverSettings {
            registry: Arc::new(self.registry.clone()),
            runtime: self.runtime.clone(),
            home: self.home.clone(),
            volume: VOLUME,
            host: HostId(host),
            earlier: Earlier::default(),
            keeps: true,
            accepts_loss: false,
            accepts_own_log: false,
            waits: true,
        }
    }

    fn rescue(&self) -> RescueSettings {
        RescueSettings { registry: Arc::new(self.registry.clone()), runtime: self.runtime.clone(), after: LEASE }
    }

    fn block(&self, block: u32) -> u8 {
        let mut bytes = vec![0; BLOCK];
        self.home.read(block, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "block {block} is torn");
        bytes[0]
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn holder_settings(folder: &Path) -> HolderSettings {
    HolderSettings { dir: folder.join("copies"), room: 64 << 20, listen: ([127, 0, 0, 1], 0).into(), insecure: false }
}

fn start_holder(folder: &Path, registry: &MemoryRegistry, runtime: &Runtime) -> HolderServer {
    let holder = HolderServer::start(&holder_settings(folder), runtime).unwrap();
    let names = HolderNames { address: holder.address().to_string(), name: "peer".into(), domain: "rack".into() };
    holder.register(Arc::new(registry.clone()), names).unwrap();
    holder
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_all(&file.path(), &to);
        } else if let Err(error) = std::fs::copy(file.path(), to) {
            // A holder that runs may just have given a file its name.
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
}

/// Counts news of a link.
#[derive(Default)]
struct Counts {
    news: Mutex<u64>,
    more: Condvar,
}

impl Listener for Counts {
    fn news(&self, _: PartitionId) {
        *self.news.lock().unwrap() += 1;
        self.more.notify_all();
    }
}

impl Counts {
    fn wait_until(&self, link: &Link, mut is_it: impl FnMut(&News) -> bool) {
        let begun = Instant::now();
        loop {
            let before = *self.news.lock().unwrap();
            if link.line().take().iter().any(&mut is_it) {
                return;
            }
            assert!(begun.elapsed() < LONG, "nothing came of it");
            let is_same = |news: &mut u64| *news == before;
            drop(self.more.wait_timeout_while(self.news.lock().unwrap(), Duration::from_millis(100), is_same));
        }
    }
}

fn data(mark: u8, blocks: usize) -> Content {
    Content::Data(Bytes::from(vec![mark; blocks * BLOCK]))
}

fn take(settings: &TakeOverSettings, words: &mut Vec<TakeOverWord>) -> Result<View, TakeOverError> {
    take_over(settings, None, &|| false, &mut |word| words.push(word)).map(|taken| taken.view)
}

#[test]
fn what_an_owner_has_left_at_a_holder_comes_home_and_the_owner_is_fenced() {
    let rig = Rig::new();
    rig.leave_copies(&[
        (1, 0, data(1, 4)),
        (1, 1, data(2, 1)),
        (2, 8, data(3, 2)),
        (2, 9, Content::Trim),
        (3, 2, data(4, 1)),
    ]);
    let mut words = Vec::new();
    let begun = Instant::now();
    let view = take(&rig.settings(2), &mut words).unwrap();
    assert!(begun.elapsed() >= LEASE, "it has not waited for the owner");
    let entry = &view.entry;
    assert_eq!((entry.epoch, entry.owner, entry.is_taking), (Epoch(2), Some(HostId(2)), false));
    assert_eq!((&entry.holders, rig.registry.view(VOLUME).unwrap()), (&vec![], view.clone()));
    assert_eq!([0, 1, 2, 3, 8, 9, 10].map(|block| rig.block(block)), [1, 2, 4, 1, 3, 0, 0]);
    let watches = TakeOverWord::Watches { lease: LEASE, is_own: false, is_used: false };
    assert_eq!(words, [watches, TakeOverWord::Claimed(Epoch(2))]);
    // Home refuses the owner of before, and so does the holder.
    assert!(matches!(rig.home.fence(Epoch(1), OLD.0), Err(crate::far::FarError::Ended(Epoch(2)))));
}

#[test]
fn of_two_hosts_one_takes_over() {
    let rig = Rig::new();
    rig.leave_copies(&[(1, 0, data(9, 64))]);
    let hosts = thread::scope(|scope| {
        let hosts = [2, 3].map(|host| {
            let settings = rig.settings(host);
            scope.spawn(move || take(&settings, &mut Vec::new()))
        });
        hosts.map(|host| host.join().unwrap())
    });
    let owner = rig.registry.view(VOLUME).unwrap().entry.owner;
    match hosts {
        [Ok(view), Err(TakeOverError::Lives | TakeOverError::Lost(_))]
        | [Err(TakeOverError::Lives | TakeOverError::Lost(_)), Ok(view)] => assert_eq!(view.entry.owner, owner),
        hosts => panic!("{hosts:?}"),
    }
    assert_eq!(rig.block(63), 9);
}

#[test]
fn an_owner_that_lives_keeps_its_volume() {
    let rig = Rig::with_lease(LONG);
    let is_over = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let View { revision, entry } = rig.registry.view(VOLUME).unwrap();
                let entry = Registered { heartbeat: entry.heartbeat + 1, ..entry };
                rig.registry.change(VOLUME, Change { expects: revision, entry }).unwrap();
                thread::sleep(LEASE / 3);
            }
        });
        let refused = take(&rig.settings(2), &mut Vec::new());
        is_over.store(true, SeqCst);
        refused
    });
    assert!(matches!(refused, Err(TakeOverError::Lives)), "{refused:?}");
    assert_eq!(rig.registry.view(VOLUME).unwrap().entry.owner, Some(OLD));
}

#[test]
fn copies_that_cannot_be_had_are_waited_for_unless_they_are_given_up() {
    let rig = Rig::new();
    rig.leave_copies(&[(1, 0, data(1, 4))]);
    rig.holder().stop();
    let stop = AtomicBool::new(false);
    let mut words = Vec::new();
    // It waits, until it is told not to.
    let stopped = take_over(&rig.settings(2), None, &|| stop.load(SeqCst), &mut |word| {
        stop.store(matches!(word, TakeOverWord::Missing { .. }), SeqCst);
        words.push(word);
    });
    assert!(matches!(stopped, Err(TakeOverError::Stopped)), "{stopped:?}");
    let Some(TakeOverWord::Missing { lists: missing, has_own_log: false, .. }) = words.last() else {
        panic!("{words:?}")
    };
    assert!(missing[0].contains(&format!("{:016x}", rig.holder().partition().0)), "{missing:?}");
    // The host that began continues where it was, and need not wait for itself.
    let settings = TakeOverSettings { accepts_loss: true, ..rig.settings(2) };
    let view = take(&settings, &mut Vec::new()).unwrap();
    assert_eq!((view.entry.owner, view.entry.epoch, rig.block(0)), (Some(HostId(2)), Epoch(3), 0));
}

#[test]
fn an_older_directory_of_a_holder_is_named_and_not_trusted() {
    let mut rig = Rig::new();
    let writes = [(1, 0, data(1, 4)), (2, 0, data(2, 1)), (2, 1, data(3, 1))];
    rig.leave_copies(&writes[..1]);
    copy_all(&rig.folder.join("copies"), &rig.folder.join("older"));
    rig.leave_copies(&writes);
    rig.acknowledge(3);
    rig.put_back_copies("older");
    let stop = AtomicBool::new(false);
    let mut words = Vec::new();
    let stopped = take_over(&rig.settings(2), None, &|| stop.load(SeqCst), &mut |word| {
        stop.store(matches!(word, TakeOverWord::Missing { .. }), SeqCst);
        words.push(word);
    });
    assert!(matches!(stopped, Err(TakeOverError::Stopped)), "{stopped:?}");
    let Some(TakeOverWord::Missing { lists, older, .. }) = words.last() else { panic!("{words:?}") };
    assert!(lists == older && older[0].contains("peer"), "{words:?}");
    assert_eq!(rig.block(0), 0, "nothing of the older directory was written back");
}

#[test]
fn loss_by_an_older_directory_can_be_accepted_and_is_recorded() {
    let mut rig = Rig::new();
    let writes = [(1, 0, data(1, 4)), (2, 0, data(2, 1))];
    rig.leave_copies(&writes[..1]);
    copy_all(&rig.folder.join("copies"), &rig.folder.join("older"));
    rig.leave_copies(&writes);
    rig.acknowledge(2);
    rig.put_back_copies("older");
    let settings = TakeOverSettings { accepts_loss: true, ..rig.settings(2) };
    let entry = take(&settings, &mut Vec::new()).unwrap().entry;
    let accepted = AcceptedLoss { epoch: Epoch(2), lists: vec![rig.holder().partition()] };
    assert_eq!((entry.accepted_loss, entry.acknowledged, rig.block(0)), (Some(accepted), vec![], 1));
}

#[test]
fn a_holder_brings_home_by_itself_what_a_silent_host_has_left() {
    let rig = Rig::new();
    rig.leave_copies(&[(1, 0, data(1, 4)), (2, 1, data(2, 1))]);
    let words = Arc::new(Mutex::new(Vec::new()));
    let heard = words.clone();
    rig.holder().rescue(rig.rescue(), move |volume, word| heard.lock().unwrap().push((volume, word))).unwrap();
    let begun = Instant::now();
    while rig.registry.view(VOLUME).unwrap().entry.owner.is_some() {
        assert!(begun.elapsed() < LONG, "{words:?}");
        thread::sleep(Duration::from_millis(10));
    }
    let entry = rig.registry.view(VOLUME).unwrap().entry;
    assert_eq!((entry.epoch, entry.is_taking, entry.holders), (Epoch(2), false, vec![]));
    assert_eq!([0, 1, 2].map(|block| rig.block(block)), [1, 2, 1]);
    // The copies are of no use any more.
    while rig.holder().status().used > 0 {
        assert!(begun.elapsed() < LONG, "{:?}", rig.holder().status());
        thread::sleep(Duration::from_millis(10));
    }
    rig.holder().stop();
    let words: Vec<_> = words.lock().unwrap().iter().map(|(_, word)| word.clone()).collect();
    assert_eq!(words, [RescueWord::On(TakeOverWord::Claimed(Epoch(2))), RescueWord::Home]);
}

#[test]
fn a_holder_lets_a_host_alone_that_lives() {
    // Long for a heartbeat on a busy machine. A host that did not live would be gone before the end.
    let rig = Rig::with_lease(3 * LEASE);
    rig.leave_copies(&[(1, 0, data(1, 1))]);
    let words = Arc::new(Mutex::new(Vec::new()));
    let heard = words.clone();
    rig.holder().rescue(rig.rescue(), move |_, word| heard.lock().unwrap().push(word)).unwrap();
    for _ in 0..36 {
        let View { revision, entry } = rig.registry.view(VOLUME).unwrap();
        let entry = Registered { heartbeat: entry.heartbeat + 1, ..entry };
        rig.registry.change(VOLUME, Change { expects: revision, entry }).unwrap();
        thread::sleep(LEASE / 6);
    }
    assert_eq!(rig.registry.view(VOLUME).unwrap().entry.owner, Some(OLD));
    rig.holder().stop();
    assert_eq!(*words.lock().unwrap(), []);
}

#[test]
fn a_host_waits_for_one_that_brings_the_volume_home_and_has_it_then() {
    // However long a busy machine lets the one that brings it home wait for its processor.
    let rig = Rig::with_lease(LONG);
    rig.leave_copies(&[(1, 0, data(3, 4))]);
    let ((claimed, has_claimed), (watched, is_watched)) = (channel(), channel());
    let (taken, words) = thread::scope(|scope| {
        scope.spawn(|| {
            let is_watched = is_watched;
            // The owner of before need not wait for its own lease. It takes its time: the other host sees it at work.
            let settings = TakeOverSettings { keeps: false, ..rig.settings(OLD.0) };
            let brought = take_over(&settings, None, &|| false, &mut |word| {
                if matches!(word, TakeOverWord::Claimed(_)) {
                    claimed.send(()).unwrap();
                    is_watched.recv_timeout(LONG).unwrap();
                }
            });
            assert_eq!(brought.unwrap().view.entry.owner, None);
        });
        has_claimed.recv_timeout(LONG).unwrap();
        let mut words = Vec::new();
        let taken = take_over(&rig.settings(3), None, &|| false, &mut |word| {
            if word == TakeOverWord::WatchesRescue {
                watched.send(()).unwrap();
            }
            words.push(word);
        });
        (taken, words)
    });
    assert_eq!((taken.unwrap().view.entry.owner, rig.block(3)), (Some(HostId(3)), 3));
    assert_eq!(words, [TakeOverWord::WatchesRescue, TakeOverWord::Claimed(Epoch(3))]);
}

/// The order of two holders, and neither speaks of the other's.
#[test]
fn the_next_holder_brings_home_what_the_first_one_does_not() {
    let rig = Rig::new();
    rig.leave_copies(&[(1, 0, data(5, 2))]);
    let View { revision, entry } = rig.registry.view(VOLUME).unwrap();
    // The first one is gone. Of three copies the host had one, so one list is enough.
    let holders = vec![PartitionId(99), rig.holder().partition()];
    rig.registry
        .change(VOLUME, Change { expects: revision, entry: Registered { holders, copies: 3, ..entry } })
        .unwrap();
    rig.holder().rescue(rig.rescue(), |_, _| {}).unwrap();
    let begun = Instant::now();
    while rig.registry.view(VOLUME).unwrap().entry.owner.is_some() {
        assert!(begun.elapsed() < LONG, "it waits for the first one for ever");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(begun.elapsed() > Duration::from_secs(5), "it has not waited for its turn");
    assert_eq!(rig.block(1), 5);
}

/// A log of the owner that has only the first write of a block.
struct Cut;

impl OwnLog for Cut {
    fn entries(&self) -> (Epoch, Vec<Entry>) {
        let stamp = Stamp { epoch: Epoch(1), sequence: Sequence(1), flush: FlushEpoch(1) };
        (Epoch(1), vec![Entry { stamp, extent: Extent { offset: 0, len: BLOCK as u64 } }])
    }

    fn read(&self, stamp: Stamp) -> Result<Kept, FileError> {
        let extent = Extent { offset: 0, len: BLOCK as u64 };
        Ok(Kept { stamp, record: Some((extent, data(7, 1))) })
    }
}

#[test]
fn what_the_own_log_has_lost_comes_from_a_holder_and_its_owner_is_not_waited_for() {
    let rig = Rig::with_lease(LONG);
    rig.leave_copies(&[(1, 0, data(7, 1)), (1, 1, data(8, 1)), (2, 0, data(9, 1))]);
    let settings = TakeOverSettings { earlier: Earlier { hosts: vec![OLD], are_dead: true }, ..rig.settings(2) };
    let taken = take_over(&settings, Some(&Cut), &|| false, &mut |_| {}).unwrap();
    assert_eq!((taken.view.entry.owner, taken.view.entry.accepted_loss), (Some(HostId(2)), None));
    assert_eq!([0, 1].map(|block| rig.block(block)), [9, 8]);
    assert_eq!(taken.brought.sequence, Sequence(3), "clean blocks of its cache may be older");
}

#[test]
fn an_own_log_is_gone_on_with_alone_if_that_is_accepted_and_the_registry_says_so() {
    let rig = Rig::new();
    rig.leave_copies(&[(1, 0, data(7, 1)), (1, 0, data(8, 1))]);
    rig.holder().stop();
    let earlier = Earlier { hosts: vec![OLD], are_dead: true };
    let settings = TakeOverSettings { earlier, accepts_own_log: true, ..rig.settings(2) };
    let mut words = Vec::new();
    let taken = take_over(&settings, Some(&Cut), &|| false, &mut |word| words.push(word)).unwrap();
    let has_said = |word: &TakeOverWord| matches!(word, TakeOverWord::Missing { has_own_log: true, .. });
    assert!(words.iter().any(has_said), "{words:?}");
    let accepted = AcceptedLoss { epoch: Epoch(2), lists: vec![rig.holder().partition()] };
    assert_eq!((taken.view.entry.accepted_loss, rig.block(0)), (Some(accepted), 7));
}
