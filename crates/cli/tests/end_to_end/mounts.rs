//! A site that is mounted: what was published is there, an open file keeps what it had, and the next open sees the
//! newest revision, whatever is killed.

use crate::followed_sites::{Farm, LEASE};
use crate::program::{start, thorp};
use fixtures::mounts::has_fuse;
use fixtures::{Process, Signal, SiteFolder, chunk_files, flip, lasting_address, until};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A site of a farm that is mounted.
pub(crate) struct Mount {
    process: Option<Process>,
    pub(crate) at: PathBuf,
}

impl Mount {
    /// Mounts the site of the store or redirector at an address.
    pub(crate) fn new(farm: &Farm, server: SocketAddr, name: &str, more: &[&str]) -> Self {
        let (at, cache) = (farm.place.path().join(name), farm.place.file(&format!("{name}-cache")));
        fs::create_dir_all(&at).unwrap();
        let server = server.to_string();
        let words = ["mount", "shop", at.to_str().unwrap(), "--server", &server, "--cache", &cache];
        Self { process: Some(start(&[&words, more].concat())), at }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.at.join(path)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn error(&self, path: &str) -> io::Error {
        fs::read(self.path(path)).map(|bytes| bytes.len()).unwrap_err()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.text(".thorp/status")).unwrap()
    }

    /// Its figures, by the listener for operators.
    pub(crate) fn figures(&self) -> Value {
        self.process.as_ref().unwrap().status().unwrap()["mount"][0].take()
    }

    /// The health of the process, by its listener for operators.
    pub(crate) fn health(&self) -> String {
        fixtures::http::get(self.process.as_ref().unwrap().address_of("admin"), "/health").unwrap().1
    }

    /// Kills the process: the kernel gets no answers any longer.
    pub(crate) fn kill(&mut self) {
        self.process.as_mut().unwrap().kill().unwrap();
    }

    /// Starts the process again that was killed.
    pub(crate) fn start_again(&mut self) {
        self.process.as_mut().unwrap().start_again().unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = process.end();
        }
        if is_mounted(&self.at) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == at.to_str())
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Compares everything below two directories.
pub(crate) fn compare(one: &Path, other: &Path) {
    assert_eq!(names(one), names(other), "{}", one.display());
    for name in names(one) {
        let (one, other) = (one.join(&name), other.join(&name));
        let [a, b] = [&one, &other].map(|path| fs::symlink_metadata(path).unwrap());
        let of = |it: &fs::Metadata| (it.mode(), it.uid(), it.gid(), it.mtime(), it.mtime_nsec());
        assert_eq!(of(&a), of(&b), "{}", other.display());
        if a.is_dir() {
            compare(&one, &other);
        } else if a.is_symlink() {
            assert_eq!(fs::read_link(&one).unwrap(), fs::read_link(&other).unwrap());
        } else {
            assert_eq!((a.len(), a.nlink()), (b.len(), b.nlink()), "{}", other.display());
            assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "{}", other.display());
        }
    }
}

/// Bytes that no two chunks have in common.
pub(crate) fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn a_mount_shows_the_site_as_it_was_published() {
    if !has_fuse() {
        return;
    }
    let farm = Farm::new();
    for (name, bytes) in [("empty", 0), ("small", 300), ("one-chunk", 200_000), ("dir/large", 9_000_000)] {
        farm.place.write(name, noise(bytes, bytes as u64));
    }
    let www = farm.place.www();
    fs::create_dir(www.join("dir/nothing")).unwrap();
    symlink("dir/large", www.join("link")).unwrap();
    fs::hard_link(www.join("small"), www.join("dir/same")).unwrap();
    fs::set_permissions(www.join("empty"), fs::Permissions::from_mode(0o640)).unwrap();
    (0..3000).for_each(|at| farm.place.write(&format!("many/{at}"), at.to_string()));
    farm.publish(&[]).ok();
    let at = farm.place.path().join("mnt");
    fs::create_dir(&at).unwrap();
    fs::set_permissions(&at, fs::Permissions::from_mode(0o750)).unwrap();
    let mount = Mount::new(&farm, farm.address, "mnt", &["--admin", "127.0.0.1:0"]);
    compare(&www, &mount.at);
    assert_eq!(fs::metadata(&at).unwrap().mode() & 0o777, 0o750, "the root has the mode of the directory below");
    let inode = |path: &str| fs::metadata(mount.path(path)).unwrap().ino();
    assert_eq!(inode("small"), inode("dir/same"), "hard links are one file");
    // Any part of a large file, in any order.
    let (mut file, whole) = (File::open(mount.path("dir/large")).unwrap(), noise(9_000_000, 9_000_000));
    for at in [8_999_990, 4_000_000, 0, 9_000_000] {
        let mut part = vec![0; 500_000];
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        let read = io::copy(&mut (&mut file).take(500_000), &mut io::Cursor::new(&mut part[..])).unwrap();
        assert!(part[..read as usize] == whole[at..(at + 500_000).min(whole.len())], "at {at}");
    }
    // Nothing can be written.
    for path in ["small", "new"] {
        let error = File::options().write(true).create(true).truncate(false).open(mount.path(path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{path}: {error}");
    }
    let status = mount.process.as_ref().unwrap().status().unwrap();
    assert_eq!((&status["mount"][0]["site"], &status["mount"][0]["revision"]), (&"shop".into(), &1.into()), "{status}");
}

#[test]
fn an_open_file_keeps_what_it_had_and_the_next_open_sees_the_newest() {
    if !has_fuse() {
        return;
    }
    let farm = Farm::new();
    farm.run(&["site", "create", "shop", "--keep", "1"]).ok();
    farm.place.write("page", "one");
    farm.place.write("large", noise(3_000_000, 1));
    farm.place.write("dir/part", "part one");
    farm.publish(&[]).ok();
    let mount = Mount::new(&farm, farm.address, "mnt", &[]);
    let (mut page, mut large) = (File::open(mount.path("page")).unwrap(), File::open(mount.path("large")).unwrap());
    let (stat, dir) = (page.metadata().unwrap(), File::open(mount.path("dir")).unwrap());
    // The kernel knows that it is not there.
    assert_eq!(mount.error("new").kind(), ErrorKind::NotFound);
    for round in 2..6 {
        farm.place.write("page", format!("page {round}"));
        farm.place.write("large", noise(3_000_000, round));
        farm.place.write("dir/part", format!("part {round}"));
        if round == 2 {
            farm.place.write("new", "here");
        }
        farm.publish(&["--wait"]).ok();
        assert_eq!(mount.text("page"), format!("page {round}"));
        assert_eq!(mount.text("dir/part"), format!("part {round}"));
        assert_eq!(mount.text("new"), "here");
        assert_eq!(fs::read_link(mount.path(".thorp/newest")).unwrap(), Path::new(&format!("at/{round}")));
        assert_eq!(mount.text(".thorp/newest/page"), format!("page {round}"));
        assert!(fs::read(mount.path("large")).unwrap() == noise(3_000_000, round));
        let through = rustix::fs::openat(&dir, "part", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        assert_eq!(io::read_to_string(File::from(through)).unwrap(), format!("part {round}"));
    }
    farm.run(&["site", "collect"]).ok();
    // The kernel has read only its first pages so far.
    let mut bytes = Vec::new();
    large.read_to_end(&mut bytes).unwrap();
    assert!(bytes == noise(3_000_000, 1));
    assert_eq!(io::read_to_string(&mut page).unwrap(), "one");
    let now = page.metadata().unwrap();
    assert_eq!((stat.ino(), stat.len(), stat.mtime()), (now.ino(), now.len(), now.mtime()));
    // An earlier revision is there by its number, while it is kept here.
    assert_eq!(mount.text(".thorp/at/4/page"), "page 4");
    assert!(names(&mount.path(".thorp/at")).contains(&"5".to_owned()));
    assert_eq!(mount.error(".thorp/at/77/page").kind(), ErrorKind::NotFound);
    assert!(!names(&mount.at).contains(&".thorp".to_owned()), "it is not listed");
    // A file becomes a directory, and a directory a file.
    let www = farm.place.www();
    fs::remove_file(www.join("page")).unwrap();
    fs::remove_dir_all(www.join("dir")).unwrap();
    farm.place.write("page/inside", "x");
    farm.place.write("dir", "a file");
    farm.publish(&["--wait"]).ok();
    // The kernel is told a moment after the member has reported the revision.
    until("the kernel is told", || mount.path("page").is_dir() && mount.path("dir").is_file());
    assert_eq!((mount.text("page/inside"), mount.text("dir")), ("x".to_owned(), "a file".to_owned()));
    compare(&www, &mount.at);
}

/// Files of the site that readers of mounts open.
const FILES: usize = 20;

/// The pause of a reader after an error.
const PAUSE: Duration = Duration::from_millis(20);

/// Says that a test is over when it is dropped, also by a panic: threads that wait for that end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The bytes of a file: some are in their directory's chunk, some are a chunk, and some the kernel reads in parts.
fn length(file: usize) -> usize {
    [10, 2000, 400_000][file % 3]
}

/// Writes all files, each full of the number of the round.
fn write_round(www: &Path, round: u64) {
    for file in 0..FILES {
        let folder = www.join(format!("d{}", file % 4));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file.to_string()), format!("{round:09}\n").repeat(length(file) / 10)).unwrap();
    }
}

/// Reads a file, and returns its round.
///
/// # Panics
/// It has parts of two.
fn read_round(root: &Path, file: usize) -> io::Result<u64> {
    let text = fs::read_to_string(root.join(format!("d{}/{file}", file % 4)))?;
    let round = text.get(..10).unwrap_or_default();
    let is_one = text.len() == length(file) && text.as_bytes().chunks(10).all(|it| it == round.as_bytes());
    assert!(is_one, "file {file} of {} bytes has parts of two rounds", text.len());
    Ok(round.trim().parse().unwrap())
}

/// Readers open files while they are published again and again. A file has the content of one revision, no reader goes
/// back, an open after a publish that waited sees it, and all files below the number of a revision belong to it.
#[test]
fn readers_of_mounts_never_mix_revisions_and_never_go_back() {
    if !has_fuse() {
        return;
    }
    let farm = Farm::new();
    write_round(&farm.place.www(), 1);
    farm.publish(&[]).ok();
    let group = farm.group("127.0.0.1:0");
    let mounts = [Mount::new(&farm, farm.address, "near", &[]), Mount::new(&farm, group.address(), "far", &[])];
    let (published, is_over, reads) = (AtomicU64::new(1), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for (who, mount) in [0, 1, 0, 1].into_iter().map(|at| &mounts[at]).enumerate() {
            let (published, is_over, reads) = (&published, &is_over, &reads);
            scope.spawn(move || {
                let _over = Over(is_over);
                let mut seen = [0; FILES];
                for file in (0..FILES).cycle().skip(who * 5) {
                    if is_over.load(SeqCst) {
                        break;
                    }
                    let before = published.load(SeqCst);
                    let round = read_round(&mount.at, file).unwrap();
                    assert!(round >= before && round >= seen[file], "{round} behind {before} and {}", seen[file]);
                    seen[file] = round;
                    reads.fetch_add(1, SeqCst);
                    if file == 0 {
                        let newest = fs::read_link(mount.path(".thorp/newest")).unwrap();
                        let snapshot = mount.path(".thorp").join(&newest);
                        let rounds: Vec<u64> = (0..FILES).map(|file| read_round(&snapshot, file).unwrap()).collect();
                        assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?} in {}", newest.display());
                    }
                }
            });
        }
        let _over = Over(&is_over);
        for round in 2..=40 {
            write_round(&farm.place.www(), round);
            farm.publish(&["--wait"]).ok();
            published.store(round, SeqCst);
        }
    });
    assert!(reads.load(SeqCst) > 200, "{} reads", reads.load(SeqCst));
}

/// Readers of two mounts during harm to everything. No file has parts of two revisions, and no mount goes back, even if
/// it is killed. A revision that is older than one a publish has waited for is not opened, or the mount says so.
#[test]
fn readers_of_mounts_are_not_deceived_while_everything_is_killed_and_stopped() {
    if !has_fuse() {
        return;
    }
    let mut farm = Farm::new();
    write_round(&farm.place.www(), 1);
    farm.publish(&[]).ok();
    let listen = lasting_address().unwrap();
    let mut group = farm.group(&listen.to_string());
    let near = Mount::new(&farm, farm.address, "near", &["--refuse-stale"]);
    let mut mounts = [near, Mount::new(&farm, listen, "far", &[])];
    let roots = [0, 1].map(|at| mounts[at].at.clone());
    let (waited, is_over, reads) = (AtomicU64::new(1), AtomicBool::new(false), AtomicU64::new(0));
    let (address, www) = (farm.address.to_string(), farm.place.www());
    let publish = || {
        let ran = thorp(["publish", www.to_str().unwrap(), "shop", "--wait", "--server", &address]);
        println!("{}{}", ran.stdout.trim(), ran.stderr.trim());
        ran.code == Some(0)
    };
    thread::scope(|scope| {
        let (waited, is_over, reads, roots) = (&waited, &is_over, &reads, &roots);
        let (publish, www) = (&publish, &www);
        scope.spawn(move || {
            let _over = Over(is_over);
            for round in 2.. {
                write_round(www, round);
                // The store may be away.
                while !is_over.load(SeqCst) && !publish() {}
                if is_over.load(SeqCst) {
                    break;
                }
                waited.store(round, SeqCst);
            }
        });
        for at in [0, 1, 0, 1] {
            scope.spawn(move || {
                let _over = Over(is_over);
                let (root, mut seen) = (&roots[at], 0);
                for file in (0..FILES).cycle() {
                    if is_over.load(SeqCst) {
                        break;
                    }
                    let before = waited.load(SeqCst);
                    let Ok(round) = read_round(root, file) else {
                        thread::sleep(PAUSE);
                        continue;
                    };
                    assert!(round >= seen, "mount {at} went back from {seen} to {round}");
                    seen = round;
                    reads.fetch_add(1, SeqCst);
                    if round < before {
                        assert_eq!(at, 1, "{round} was opened, and a publish has waited for {before}");
                        let status = fs::read_to_string(root.join(".thorp/status"));
                        let is_fresh = status.is_ok_and(|status| status.contains("\"stale_seconds\":null"));
                        let again = if is_fresh { read_round(root, file).unwrap_or(before) } else { before };
                        assert!(again >= before, "{again} is called the newest, and a publish has waited for {before}");
                    }
                }
            });
        }
        let _over = Over(is_over);
        for turn in 0..3 {
            thread::sleep(LEASE);
            let stopped = if turn == 0 { &farm.store } else { &mounts[turn - 1].process };
            let stop = |signal| stopped.as_ref().unwrap().signal(signal).unwrap();
            stop(Signal::STOP);
            thread::sleep(3 * LEASE / 2);
            stop(Signal::CONT);
            thread::sleep(LEASE);
            group.kill().unwrap();
            group = farm.group(&listen.to_string());
            mounts[turn % 2].kill();
            mounts[turn % 2].start_again();
            thread::sleep(LEASE);
            farm.store.take().unwrap().kill().unwrap();
            farm.start_store();
        }
        let behind = waited.load(SeqCst);
        until("publishes come to both mounts again", || {
            waited.load(SeqCst) > behind + 2 && roots.iter().all(|root| read_round(root, 0).is_ok_and(|it| it > behind))
        });
    });
    let (reads, waited) = (reads.load(SeqCst), waited.load(SeqCst));
    assert!(reads > 200 && waited > 10, "{reads} reads, {waited} publishes");
}

#[test]
fn a_mount_without_its_store_says_so_and_comes_back_after_a_kill() {
    if !has_fuse() {
        return;
    }
    let mut farm = Farm::new();
    farm.place.write("page", "one");
    farm.publish(&[]).ok();
    let mut mount = Mount::new(&farm, farm.address, "mnt", &[]);
    let strict = Mount::new(&farm, farm.address, "strict", &["--refuse-stale"]);
    let fresh = serde_json::json!({"site": "shop", "revision": 1, "stale_seconds": null});
    assert_eq!(mount.status(), fresh);
    farm.store.take().unwrap().kill().unwrap();
    until("it says that it may be old", || mount.status()["stale_seconds"].is_number());
    assert_eq!(mount.text("page"), "one");
    until("the other refuses", || fs::read(strict.path("page")).is_err());
    assert_eq!(strict.error("page").raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
    assert!(strict.status()["stale_seconds"].is_number());
    // It is killed, and mounted again over what was left.
    mount.kill();
    assert_eq!(mount.error("page").kind(), ErrorKind::NotConnected);
    mount.start_again();
    assert_eq!(mount.text("page"), "one");
    assert!(mount.status()["stale_seconds"].is_number());
    farm.start_store();
    until("it is fresh again", || mount.status() == fresh);
    until("so is the other", || fs::read(strict.path("page")).is_ok());
    farm.place.write("page", "two");
    farm.publish(&["--wait"]).ok();
    assert_eq!((mount.text("page"), strict.text("page")), ("two".to_owned(), "two".to_owned()));
    // The process ends when another one unmounts its site.
    assert!(Command::new("umount").arg(&mount.at).status().unwrap().success());
    let ended = mount.process.take().unwrap().ended().unwrap();
    assert!(ended.status.success() && ended.stdout.contains("stopped"), "{ended:?}");
}

/// After a publish has returned, no open sees an older revision; and opens that wait for the store cost others nothing.
#[test]
fn opens_of_a_sequential_site_wait_for_the_newest() {
    if !has_fuse() {
        return;
    }
    let farm = Farm::new();
    farm.run(&["site", "create", "shop", "--consistency", "sequential"]).ok();
    farm.place.write("page", "0");
    farm.place.write("large", noise(600_000, 5));
    farm.publish(&[]).ok();
    let mounts = [Mount::new(&farm, farm.address, "one", &[]), Mount::new(&farm, farm.address, "two", &[])];
    for round in 1..20 {
        farm.place.write("page", round.to_string());
        farm.place.write(&format!("new-{round}"), "");
        farm.publish(&[]).ok();
        for mount in &mounts {
            assert_eq!(mount.text("page"), round.to_string());
            assert_eq!(fs::metadata(mount.path(&format!("new-{round}"))).unwrap().len(), 0);
        }
    }
    // While the store stands still, twenty readers wait for it, and a file that is open can be read.
    let mut open = File::open(mounts[0].path("large")).unwrap();
    let store = farm.store.as_ref().unwrap();
    for mount in &mounts {
        mount.text("page");
    }
    store.signal(Signal::STOP).unwrap();
    thread::sleep(2 * LEASE);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..20).map(|_| scope.spawn(|| mounts[0].text("page"))).collect();
        thread::sleep(LEASE / 4);
        let mut bytes = Vec::new();
        open.read_to_end(&mut bytes).unwrap();
        assert!(bytes == noise(600_000, 5));
        store.signal(Signal::CONT).unwrap();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), "19");
        }
    });
}

/// A bit that flips on the disk of a mount is never given out, and the chunk is fetched again.
#[test]
fn a_damaged_chunk_of_a_mount_heals() {
    if !has_fuse() {
        return;
    }
    let farm = Farm::new();
    let content = noise(200_000, 3);
    farm.place.write("large", &content);
    farm.publish(&[]).ok();
    let mount = Mount::new(&farm, farm.address, "mnt", &["--memory", "0"]);
    let chunk = &chunk_files(Path::new(&farm.place.file("mnt-cache")))[0];
    let whole = fs::read(chunk).unwrap();
    flip(chunk);
    // The kernel reads a page again that it could not read ahead, and the chunk may have come by then.
    until("it can be read", || match fs::read(mount.path("large")) {
        Ok(bytes) => {
            assert!(bytes == content, "a damaged chunk was given out");
            true
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
            false
        }
    });
    assert!(fs::read(chunk).unwrap() == whole, "it is whole again");
}

#[test]
fn a_directory_that_cannot_be_mounted_on_is_refused() {
    let farm = Farm::new();
    farm.place.write("page", "one");
    farm.publish(&[]).ok();
    let (server, cache, missing) = (farm.address.to_string(), farm.place.file("cache"), farm.place.file("missing"));
    let mount = |at: &str, more: &[&str]| thorp([&["mount", "shop", at][..], more].concat());
    let refused = mount(&missing, &["--server", &server, "--cache", &cache]).error();
    assert!(refused.contains("missing: there is no such directory to mount on"), "{refused}");
    let file = farm.place.www().join("page");
    let refused = mount(file.to_str().unwrap(), &["--server", &server, "--cache", &cache]).error();
    assert!(refused.contains("only a directory can be mounted on"), "{refused}");
    let around = farm.place.path().to_str().unwrap();
    let refused = mount(around, &["--server", &server, "--cache", &cache]).error();
    assert!(refused.contains("has the files of --cache inside"), "{refused}");
    if has_fuse() {
        let mounted = Mount::new(&farm, farm.address, "mnt", &[]);
        let refused = mount(mounted.at.to_str().unwrap(), &["--server", &server, "--cache", &cache]).error();
        assert!(refused.contains("a site is mounted here already"), "{refused}");
        assert_eq!(mounted.text("page"), "one");
    }
    let refused = mount(around, &["--server", &server]).usage();
    assert!(refused.contains("name a directory for the site's files with --cache"), "{refused}");
}

#[test]
fn a_mount_without_readers_uses_no_processor() {
    if !has_fuse() {
        return;
    }
    let place = SiteFolder::new();
    place.write("a", "one");
    thorp(["publish", &place.file("www"), "shop", "--dir", &place.file("store")]).ok();
    let at = place.path().join("mnt");
    fs::create_dir(&at).unwrap();
    let words = ["mount", "shop", at.to_str().unwrap(), "--dir", &place.file("store")];
    let mount = Mount { process: Some(start(&words)), at };
    assert_eq!(mount.text("a"), "one");
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", mount.process.as_ref().unwrap().id())).unwrap();
        let behind_name = stat.rsplit_once(')').unwrap().1;
        // Hundredths of a second in the program and in the kernel.
        behind_name.split_whitespace().skip(11).take(2).map(|text| text.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = used();
    thread::sleep(Duration::from_secs(2));
    assert!(used() - before < 40, "{} hundredths of a second in two seconds", used() - before);
}
