//! The registry in a store that runs, as several hosts ask it over TCP.

use database::{LocalStore, Recovered};
use machines::{Change, HostId, Member, PartitionId, Registered, View, VolumeId};
use net::{ListenConfig, Runtime};
use registry::{Life, MEMBERS_MAX, Registrant, Registry, RegistryError, SILENCE, StoreRegistry, VOLUMES_MAX};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use types::NodeId;

const VOLUME: VolumeId = VolumeId(0xfeed_f00d);

/// The only node of the stores here.
const HOME: NodeId = NodeId(0);

/// Longer than anything here takes on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(60);

/// A store that clients connect to, in a folder of its own.
struct Store {
    local: LocalStore,
    address: SocketAddr,
    folder: PathBuf,
}

impl Store {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("thorp-registry-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let recovered = Recovered::read(&folder, &disk::Config::default(), store::Config::default(), |_| {}).unwrap();
        let store = recovered.start(None, &Runtime::start().unwrap());
        let config = ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into());
        let address = store.host().listen(store.role(), config).unwrap();
        Self { local: store, address, folder }
    }

    /// The registry, as another process has it.
    fn registry(&self, place: &str) -> StoreRegistry {
        StoreRegistry::connect(&self.address.to_string(), place).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.local.host().close(self.local.role());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn entry() -> Registered {
    Registered::new(100 << 30, 2, Duration::from_secs(10))
}

fn claim(view: &View, host: u64) -> Change {
    let entry = Registered { owner: Some(HostId(host)), heartbeat: view.entry.heartbeat + 1, ..view.entry.clone() };
    Change { expects: view.revision, entry }
}

fn member(number: u64, free: u64) -> Registrant {
    let member = Member { partition: PartitionId(number), domain: number, free, copies: 0, is_nearly_full: false };
    let (address, name) = (format!("127.0.0.1:{number}"), format!("peer-{number}"));
    let domain = format!("rack-{number}");
    Registrant { member, life: Life { incarnation: 1, number }, address, name, domain, is_disk_full: false }
}

#[test]
fn volumes_are_made_found_listed_and_removed() {
    let store = Store::new("made");
    let (one, other) = (store.registry("here"), store.registry("there"));
    assert_eq!(one.list().unwrap(), []);
    assert!(matches!(one.find("v"), Err(RegistryError::NoSuchName(_))));
    one.create("v", VOLUME, &entry(), HOME).unwrap();
    assert_eq!(other.create("v", VolumeId(2), &entry(), HOME), Err(RegistryError::NameTaken("v".into())));
    for name in ["", "a b", "../v", "7up", &"v".repeat(65)] {
        assert_eq!(other.create(name, VolumeId(2), &entry(), HOME), Err(RegistryError::Name(name.into())));
    }
    other.create("w", VolumeId(2), &entry(), NodeId(3)).unwrap();
    assert_eq!(one.home_address(VOLUME), Ok(store.address.to_string()));
    assert_eq!(one.home_address(VolumeId(2)), Err(RegistryError::NoSuchNode(NodeId(3))));
    assert_eq!(one.home_address(VolumeId(9)), Err(RegistryError::NoSuchVolume(VolumeId(9))));
    let found = other.find("v").unwrap();
    assert_eq!((found.id, &found.view.entry), (VOLUME, &entry()));
    assert_eq!(one.list().unwrap().iter().map(|it| it.name.clone()).collect::<Vec<_>>(), ["v", "w"]);

    let made = one.change(VOLUME, claim(&found.view, 1)).unwrap();
    assert_eq!(other.find("v").unwrap().place, "here");
    assert_eq!(other.remove("v"), Err(RegistryError::Attached("v".into(), "here".into())));
    let entry = Registered { owner: None, ..made.entry.clone() };
    one.change(VOLUME, Change { expects: made.revision, entry }).unwrap();
    assert_eq!((other.find("v").unwrap().place.as_str(), other.remove("v")), ("", Ok(VOLUME)));
    assert!(matches!(one.find("v"), Err(RegistryError::NoSuchName(_))));
}

/// Many hosts change one volume at a time, each as it saw it last: each change that is made was made once, and after
/// the one that it expects.
#[test]
fn changes_are_made_one_after_another() {
    let store = Store::new("changes");
    store.registry("maker").create("v", VOLUME, &entry(), HOME).unwrap();
    let mut revisions: Vec<_> = thread::scope(|scope| {
        let host = |number| {
            let registry = store.registry("host");
            scope.spawn(move || {
                let (mut view, mut made) = (registry.view(VOLUME).unwrap(), Vec::new());
                while made.len() < 25 {
                    match registry.change(VOLUME, claim(&view, number)) {
                        Ok(changed) => {
                            assert_eq!(changed.revision, view.revision + 1);
                            made.push(changed.revision);
                            view = changed;
                        }
                        Err(Some(standing)) => {
                            assert!(standing.revision > view.revision, "{standing:?} for {view:?}");
                            view = standing;
                        }
                        Err(None) => panic!("the store is there"),
                    }
                }
                made
            })
        };
        let hosts: Vec<_> = (0..4).map(host).collect();
        hosts.into_iter().flat_map(|host| host.join().unwrap()).collect()
    });
    revisions.sort_unstable();
    assert_eq!(revisions, (2..=101).collect::<Vec<_>>());
    assert_eq!(store.registry("reader").view(VOLUME).unwrap().entry.heartbeat, 100);
}

#[test]
fn who_waits_hears_of_a_change_by_a_invalidation() {
    let store = Store::new("waits");
    let owner = store.registry("owner");
    owner.create("v", VOLUME, &entry(), HOME).unwrap();
    let watcher = store.registry("watcher");
    let mut view = watcher.view(VOLUME).unwrap();
    // Everything that was there before the first call counts as a change.
    watcher.wait(LONG);
    let (heard, hears) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = watcher.view(VOLUME).unwrap().revision;
            while last < 11 {
                watcher.wait(LONG);
                let revision = watcher.view(VOLUME).unwrap().revision;
                if revision > last {
                    last = revision;
                    heard.send((revision, Instant::now())).unwrap();
                }
            }
        });
        for _ in 0..10 {
            view = owner.change(VOLUME, claim(&view, 1)).unwrap();
            let (made, revision) = (Instant::now(), view.revision);
            let (seen, at) = hears.recv_timeout(LONG).unwrap();
            assert_eq!(seen, revision);
            // A poll by seconds would not be as quick.
            let after = at.saturating_duration_since(made);
            assert!(after < Duration::from_millis(500), "heard of revision {revision} after {after:?}");
        }
    });
    let begun = Instant::now();
    owner.wait(LONG);
    owner.wait(Duration::from_millis(50));
    assert!(begun.elapsed() >= Duration::from_millis(50), "nothing has changed since");
}

#[test]
fn silence_ends_a_member() {
    let store = Store::new("silence");
    let (one, other, reader) = (store.registry("one"), store.registry("other"), store.registry("reader"));
    one.enter(&member(1, 50)).unwrap();
    other.enter(&member(2, 50)).unwrap();
    other.enter(&member(2, 40)).unwrap();
    let begun = Instant::now();
    assert_eq!(reader.members().unwrap(), [member(1, 50), member(2, 40)]);
    // One of the two continues.
    while reader.members().unwrap().len() > 1 {
        assert!(begun.elapsed() < LONG, "a silent member is a member still");
        other.enter(&member(2, 30)).unwrap();
        thread::sleep(Duration::from_millis(200));
    }
    assert!(begun.elapsed() >= SILENCE);
    assert_eq!(reader.members().unwrap(), [member(2, 30)]);
    one.enter(&member(1, 50)).unwrap();
    while reader.members().unwrap().len() < 2 {
        assert!(begun.elapsed() < LONG, "a member that came back is none");
    }
    other.leave(PartitionId(2)).unwrap();
    other.leave(PartitionId(2)).unwrap();
    while reader.members().unwrap() != [member(1, 50)] {
        assert!(begun.elapsed() < LONG, "a member that left is a member still");
    }
}

/// As many as there may be, with the longest names and addresses, and no more.
#[test]
fn a_full_registry_says_so() {
    let store = Store::new("full");
    let registry = store.registry("here");
    let owner = store.registry(&"p".repeat(5000));
    for number in 0..VOLUMES_MAX as u64 {
        registry.create(&format!("v{number:063}"), VolumeId(number), &entry(), HOME).unwrap();
        let view = owner.view(VolumeId(number)).unwrap();
        let holders = (0..8).map(|holder| PartitionId(u64::MAX - holder)).collect();
        let entry = Registered { holders, ..claim(&view, u64::MAX).entry };
        owner.change(VolumeId(number), Change { expects: view.revision, entry }).unwrap();
    }
    assert_eq!(registry.create("one-more", VOLUME, &entry(), HOME), Err(RegistryError::TooManyVolumes));
    for number in 0..MEMBERS_MAX as u64 {
        let (name, address) = (format!("{number:064}"), format!("{number:0256}"));
        registry.enter(&Registrant { name, address, ..member(number, 1) }).unwrap();
    }
    assert_eq!(registry.enter(&member(u64::MAX, 1)), Err(RegistryError::TooManyMembers));
    // Volumes whose holders have the longest names: where a page has no room for these, the rest is there.
    let mut named = 0;
    for number in 0..VOLUMES_MAX as u64 {
        let view = owner.view(VolumeId(number)).unwrap();
        let holders = (0..8).map(PartitionId).collect();
        let entry = Registered { holders, ..claim(&view, u64::MAX).entry };
        owner.change(VolumeId(number), Change { expects: view.revision, entry }).unwrap();
        named += owner.holders(VolumeId(number)).unwrap().len();
    }
    assert!((8..8 * VOLUMES_MAX).contains(&named), "{named} names");
    let reader = store.registry("reader");
    assert_eq!((reader.list().unwrap().len(), reader.members().unwrap().len()), (VOLUMES_MAX, MEMBERS_MAX));
}
