//! Locks of single files, in a directory that is open here and at a server: they exclude the publishers of both.

use files::{FileService, FilesError, Lock, LockState, Path, Publish, Published, Rollback, Server, SiteName, Sites};
use fixtures::{SiteFolder, until};
use net::{ListenConfig, Runtime};
use objects::Db;
use std::fs;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(30);

fn shop() -> SiteName {
    SiteName::parse("shop").unwrap()
}

fn lock(sites: &Sites, path: &str, within: Duration) -> Result<Lock, FilesError> {
    sites.lock(&shop(), &Path::parse(path.as_bytes()).unwrap(), within)
}

/// Publishes the directory with this text in a file.
fn publish(
    sites: &Sites,
    place: &SiteFolder,
    file: &str,
    text: &str,
    settings: &Publish,
) -> Result<Published, FilesError> {
    fs::write(place.www().join(file), text).unwrap();
    sites.publish(&shop(), &place.www(), settings, &mut |_| Continue(()))
}

fn under(lock: &Lock) -> Publish {
    Publish { locks: vec![lock.token()], ..Publish::default() }
}

/// A store in a directory, and a server of it for two publishers.
struct Served {
    place: SiteFolder,
    _service: FileService,
    _runtime: Runtime,
    publishers: [Sites; 2],
}

impl Served {
    fn start() -> Self {
        let (place, runtime) = (SiteFolder::new(), Runtime::start().unwrap());
        let db = Db::open(place.store()).unwrap();
        let service = FileService::start(db.clone(), &place.store(), Duration::from_secs(2), &runtime).unwrap();
        let beside = service.beside(8);
        let any = "127.0.0.1:0".parse().unwrap();
        let address = beside.host.listen(beside.role, ListenConfig::new(beside.codec, any)).unwrap();
        let connect = || {
            let (addresses, space) = (address.to_string(), "main".to_owned());
            let server = Server { addresses, space, cache: None, is_given_up: Arc::new(|| false) };
            Sites::connect(Some(db.clone()), server).unwrap()
        };
        let publishers = [connect(), connect()];
        Self { place, _service: service, _runtime: runtime, publishers }
    }
}

/// Two users of one store: `own` locks files, which `other` wants to change.
fn they_exclude_each_other(place: &SiteFolder, own: &Sites, other: &Sites) {
    let plain = Publish::default();
    assert!(matches!(lock(own, "a.html", SOON), Err(FilesError::NoSite(_))));
    publish(own, place, "a.html", "1", &plain).unwrap();

    // One of them at a time has a lock. The other may wait for it.
    let locked = lock(own, "a.html", LATE).unwrap();
    assert_eq!((locked.state(), locked.head().map(|(number, _)| number)), (LockState::Held, Some(1)));
    assert!(matches!(lock(other, "a.html", SOON), Err(FilesError::Locked(..))));
    assert_eq!(locked.wait(LATE), LockState::Recalled);
    drop(lock(other, "b.html", LATE).unwrap());
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock(other, "a.html", LATE).unwrap());
        assert_eq!(publish(own, place, "a.html", "2", &under(&locked)).unwrap().revision.number, 2);
        drop(locked);
        assert_eq!(waits.join().unwrap().head().map(|(number, _)| number), Some(2));
    });

    // A publish that changes the file waits, and others do not.
    let locked = lock(own, "a.html", LATE).unwrap();
    assert_eq!(publish(other, place, "b.html", "3", &plain).unwrap().revision.number, 3);
    assert_eq!(locked.state(), LockState::Held);
    thread::scope(|scope| {
        let waits = scope.spawn(|| publish(other, place, "a.html", "4", &plain).unwrap());
        until("the lock is recalled", || locked.is_recalled());
        assert!(!waits.is_finished());
        drop(locked);
        assert_eq!(waits.join().unwrap().revision.number, 4);
    });

    // It waits for a lease at most, or not at all. Afterwards a publish under the lock is refused.
    let locked = lock(own, "a.html", LATE).unwrap();
    let begun = Instant::now();
    other.rollback(&shop(), 3, &Rollback { now: true, ..Rollback::default() }).unwrap();
    until("the lock is over", || locked.is_over());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let refused = publish(own, place, "a.html", "5", &under(&locked));
    assert!(matches!(refused, Err(FilesError::LockOver(_))), "{refused:?}");
    assert_eq!(own.head(&shop()).unwrap().unwrap().number, 5);
}

#[test]
fn locks_in_a_directory_exclude_its_users() {
    let place = SiteFolder::new();
    let sites = Sites::open(Db::open(place.store()).unwrap(), &place.store()).unwrap();
    they_exclude_each_other(&place, &sites, &sites);
}

#[test]
fn locks_at_a_server_exclude_its_publishers() {
    let served = Served::start();
    let [own, other] = &served.publishers;
    they_exclude_each_other(&served.place, own, other);
    // A publish waits for the lease of one that does not release its lock.
    let _locked = lock(own, "a.html", LATE).unwrap();
    let begun = Instant::now();
    publish(other, &served.place, "a.html", "6", &Publish::default()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
