//! Stored responses on disk: found again, also by the next process, and never wrong.

use crate::harness::{Answer, Client, Origin, PATIENCE, config, response};
use http::{Request, Response};
use proxy::{Changes, Config, DiskConfig, Note, Proxy, invalidate, why};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("thorp-proxy-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Half a megabyte of memory, and sixteen of disk.
fn on_disk(origin: &Origin, folder: &Folder) -> Config {
    let mut config = config(origin.address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    config.limits.stored_bytes = 500_000;
    config.disk = Some(DiskConfig { dir: folder.path().to_owned(), bytes: 16 << 20 });
    config
}

/// A body of a path: its size is in it, as in `/20000/7`.
fn body(path: &str) -> Vec<u8> {
    let size = path.split('/').nth(1).and_then(|size| size.parse().ok()).unwrap_or(10);
    let line = format!("{path} and so on, ");
    line.bytes().cycle().take(size).collect()
}

/// An origin whose responses have a validator, and depend on `all` and on their path.
fn origin() -> Origin {
    Origin::start(|request: &Request<bytes::Bytes>| -> Response<bytes::Bytes> {
        let path = request.uri().path().to_owned();
        let tag = format!("\"{path}\"");
        let groups = format!("\"all\", \"{path}\"");
        let fields = [("cache-control", "max-age=600"), ("etag", &tag), ("cache-groups", &groups)];
        if request.headers().get("if-none-match").is_some_and(|known| *known == *tag) {
            return response(304, &fields, "");
        }
        if path.starts_with("/plain") {
            return response(200, &[("cache-control", "max-age=600")], "without a validator");
        }
        response(200, &fields, body(&path))
    })
}

fn paths(size: usize, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/{size}/{number}")).collect()
}

/// Asks, and looks at every byte.
fn get(client: &mut Client, path: &str) -> Answer {
    let answer = client.get(path);
    assert!(answer.status == 200 && answer.body == body(path), "{path}: {} bytes", answer.body.len());
    answer
}

fn hits(proxy: &Proxy, paths: &[String]) -> usize {
    let mut client = Client::connect(proxy.address());
    paths.iter().filter(|path| get(&mut client, path).is_hit()).count()
}

/// Waits until nothing waits to be written any more.
fn is_written(proxy: &Proxy, count: usize) -> bool {
    let begin = Instant::now();
    while proxy.on_disk().1 < count as u64 && begin.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    proxy.on_disk().1 >= count as u64
}

#[test]
fn responses_that_leave_memory_are_hits_from_disk() {
    let (origin, folder) = (origin(), Folder::new());
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    let paths = paths(20_000, 100);
    assert_eq!(hits(&proxy, &paths), 0);
    assert_eq!(hits(&proxy, &paths), 100, "memory has room for 20 of them");
    assert_eq!(origin.received().len(), 100);
    assert!(proxy.stored().0 < 30 && proxy.tally().from_disk > 60, "{:?}, {:?}", proxy.stored(), proxy.tally());
    assert!(is_written(&proxy, 1_500_000));
    assert_eq!(hits(&proxy, &paths), 100);
    let admin = proxy.admin_address().unwrap().to_string();
    let said = |path: &String| why(&admin, None, &format!("http://shop.example{path}")).unwrap()["stored"][0].clone();
    let places: Vec<_> = paths.iter().map(|path| said(path)["in"].as_str().unwrap().to_owned()).collect();
    assert!(["disk", "memory"].iter().all(|place| places.iter().any(|other| other == place)), "{places:?}");
    // An update finds those on disk as well.
    let who = proxy::who(&admin, None, "all").unwrap();
    assert_eq!(who["responses"], 100);
    let on_disk = &paths[places.iter().position(|place| place == "disk").unwrap()];
    let changes = Changes { dependencies: vec![on_disk.clone()], ..Changes::default() };
    invalidate(&admin, None, &changes).unwrap();
    assert_eq!(proxy::who(&admin, None, "all").unwrap()["responses"], 99);
    let answer = get(&mut Client::connect(proxy.address()), on_disk);
    assert!(answer.field("cache-status").unwrap().contains("detail=invalidated"), "{answer:?}");
    assert!(get(&mut Client::connect(proxy.address()), on_disk).is_hit(), "a 304 has confirmed it");
}

#[test]
fn large_bodies_and_their_ranges_come_from_disk() {
    let (origin, folder) = (origin(), Folder::new());
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    let mut client = Client::connect(proxy.address());
    let path = "/3000000/0";
    assert!(!get(&mut client, path).is_hit());
    for _ in 0..2 {
        assert!(get(&mut client, path).is_hit());
        for (from, to) in [(0, 0), (65_535, 65_536), (1_000_000, 2_500_000), (2_999_999, 2_999_999)] {
            let part = client.ask("GET", path, &format!("Range: bytes={from}-{to}\r\n"));
            assert_eq!((part.status, part.is_hit()), (206, true));
            assert!(part.body == body(path)[from..=to], "{from}-{to}");
        }
        let head = client.ask("HEAD", path, "");
        assert_eq!((head.is_hit(), head.field("content-length").unwrap().as_str()), (true, "3000000"));
        assert!(is_written(&proxy, 3_000_000));
    }
    assert!(proxy.stored().1 < 10_000, "it is not in memory: {:?}", proxy.stored());
    // A reader that stops in the middle keeps nothing from going on.
    let mut slow = Client::connect(proxy.address());
    slow.write(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
    let paths = paths(1_000_000, 40);
    hits(&proxy, &paths);
    let answer = slow.read().unwrap();
    assert!(answer.body == body(path), "it gets the bytes that it was promised");
    assert_eq!(origin.received().len(), 41);
}

#[test]
fn the_next_process_finds_them_and_validates_each_before_it_answers() {
    let (origin, folder) = (origin(), Folder::new());
    let mut paths = paths(20_000, 40);
    paths.extend(["/2000000/0".to_owned(), "/100/1".to_owned()]);
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    hits(&proxy, &paths);
    let mut client = Client::connect(proxy.address());
    client.get("/plain");
    let admin = proxy.admin_address().unwrap().to_string();
    let purged = Changes { urls: vec![format!("http://shop.example{}", paths[3])], ..Changes::default() };
    assert_eq!(invalidate(&admin, None, &purged).unwrap()["removed"], 1);
    drop((client, proxy));
    let before = origin.received().len();
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    assert_eq!(proxy.on_disk().0, 41, "all but one that was removed, and one that nothing validates");
    assert_eq!(hits(&proxy, &paths), 0, "nothing is proved");
    assert_eq!(hits(&proxy, &paths), 42);
    let received = &origin.received()[before..];
    let whole = |request: &&Request<bytes::Bytes>| !request.headers().contains_key("if-none-match");
    let whole: Vec<_> = received.iter().filter(whole).map(|request| request.uri().path().to_owned()).collect();
    assert_eq!((received.len(), whole), (42, vec![paths[3].clone()]), "the others have not sent their bodies again");
    let said = why(&proxy.admin_address().unwrap().to_string(), None, &format!("http://shop.example{}", paths[40]));
    assert_eq!(said.unwrap()["stored"][0]["in"], "disk");
}

#[test]
fn what_is_stored_of_another_origin_is_dropped() {
    let (one, other, folder) = (origin(), origin(), Folder::new());
    let paths = paths(20_000, 50);
    let proxy = Proxy::start(on_disk(&one, &folder)).unwrap();
    hits(&proxy, &paths);
    proxy.reload(on_disk(&other, &folder)).unwrap();
    assert_eq!((proxy.on_disk().0, hits(&proxy, &paths), other.received().len()), (0, 0, 50));
    drop(proxy);
    let proxy = Proxy::start(on_disk(&other, &folder)).unwrap();
    assert_eq!(proxy.on_disk().0, 50);
    drop(proxy);
    let proxy = Proxy::start(on_disk(&one, &folder)).unwrap();
    assert_eq!(proxy.on_disk().0, 0);
}

#[test]
fn a_disk_that_does_not_give_back_what_was_written_costs_a_miss() {
    let (origin, folder) = (origin(), Folder::new());
    let (notes, noted) = mpsc::channel();
    let proxy = Proxy::start(Config { notes: Some(notes), ..on_disk(&origin, &folder) }).unwrap();
    let paths = [paths(20_000, 50), vec!["/3000000/0".to_owned()]].concat();
    hits(&proxy, &paths);
    assert!(is_written(&proxy, 3_500_000));
    let records = folder.path().join("records");
    let bytes = fs::read(&records).unwrap();
    fs::write(&records, bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()).unwrap();
    let mut client = Client::connect(proxy.address());
    for path in &paths[..50] {
        get(&mut client, path);
    }
    let note = noted.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(&note, Note::Disk(why) if why.contains("not what was written")), "{note}");
    assert!(origin.received().len() > 60);
    assert_eq!(hits(&proxy, &paths[..50]), 50);
}

#[test]
fn directories_that_cannot_be_used_are_refused_by_name() {
    let (origin, folder) = (origin(), Folder::new());
    let refused = |config: Config| Proxy::start(config).map(drop).unwrap_err().to_string();
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    assert!(refused(on_disk(&origin, &folder)).contains("(in-use)"));
    Proxy::check(on_disk(&origin, &folder)).unwrap();
    drop(proxy);
    let mut small = on_disk(&origin, &folder);
    small.disk = Some(DiskConfig { dir: folder.path().to_owned(), bytes: 100_000 });
    assert!(refused(small).contains("(too-small)"));
    let other = Folder::new();
    let at = |dir: &Path| Config {
        disk: Some(DiskConfig { dir: dir.to_owned(), bytes: 16 << 20 }),
        ..on_disk(&origin, &other)
    };
    assert!(refused(at(&other.path().join("none"))).contains("(no-directory)"));
    fs::write(other.path().join("letter"), "of somebody").unwrap();
    assert!(refused(at(other.path())).contains("(not-a-cache)"));
    assert!(refused(at(&other.path().join("letter"))).contains("(unreadable)"));
    let why = Proxy::check(at(other.path())).unwrap_err().to_string();
    assert!(why.contains("it has 'letter'; name an empty directory"), "{why}");
}

/// Clients who ask for many more responses than there is room for, updates and removals in the meantime: every byte is
/// right, the limits hold, and nothing that was changed is answered with.
#[test]
fn many_clients_and_ten_times_the_room() {
    let zeros = || -> Arc<Vec<AtomicUsize>> { Arc::new((0..2000).map(|_| AtomicUsize::new(0)).collect()) };
    // As the origin has them, and as changes of them were notified of.
    let (versions, told) = (zeros(), zeros());
    let known = versions.clone();
    let number_of = |path: &str| path.rsplit('/').next().unwrap().parse::<usize>().unwrap();
    let origin = Origin::start(move |request| {
        let path = request.uri().path().to_owned();
        let version = known[number_of(&path)].load(Ordering::SeqCst);
        let (tag, groups) = (format!("\"{version}\""), format!("\"{path}\""));
        let fields = [("cache-control", "max-age=600"), ("etag", &*tag), ("cache-groups", &groups)];
        if request.headers().get("if-none-match").is_some_and(|known| *known == *tag) {
            return response(304, &fields, "");
        }
        let bytes: Vec<u8> = format!("{version} ").bytes().chain(body(&path)).collect();
        response(200, &fields, bytes)
    });
    let folder = Folder::new();
    let proxy = Proxy::start(on_disk(&origin, &folder)).unwrap();
    let (address, admin) = (proxy.address(), proxy.admin_address().unwrap().to_string());
    std::thread::scope(|scope| {
        for seed in 0..4_u64 {
            let (versions, told, admin) = (versions.clone(), told.clone(), admin.clone());
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let mut random = seed + 1;
                for _ in 0..400 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = ((random >> 33) % 45 * (random >> 40 & 31)) as usize;
                    let path = format!("/{}/{number}", [1000, 60_000, 400_000, 5000][number % 4]);
                    if (random >> 20).is_multiple_of(32) {
                        let version = versions[number].fetch_add(1, Ordering::SeqCst) + 1;
                        let changes = match random >> 30 & 1 {
                            0 => Changes { dependencies: vec![path], ..Changes::default() },
                            _ => Changes { urls: vec![format!("http://shop.example{path}")], ..Changes::default() },
                        };
                        invalidate(&admin, None, &changes).unwrap();
                        told[number].fetch_max(version, Ordering::SeqCst);
                        continue;
                    }
                    let least = told[number].load(Ordering::SeqCst);
                    let answer = client.get(&path);
                    let space = answer.body.iter().position(|byte| *byte == b' ').unwrap();
                    let version: usize = std::str::from_utf8(&answer.body[..space]).unwrap().parse().unwrap();
                    assert!(answer.body[space + 1..] == body(&path), "{path}");
                    assert!(version >= least, "{path} is of version {version}, not of {least}");
                }
            });
        }
    });
    let (stored, on_disk) = (proxy.stored(), proxy.on_disk());
    assert!(stored.1 <= 500_000 && on_disk.1 <= 16 << 20, "{stored:?}, {on_disk:?}");
    // The disk is used: how many responses that is depends on which sizes came last.
    assert!(on_disk.1 > 8 << 20, "{on_disk:?}");
    assert!(proxy.tally().from_disk > 10, "{:?}", proxy.tally());
}
