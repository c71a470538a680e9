//! A mount whose files the kernel reads by itself: they are what was published, open ones keep what they had, and what
//! is damaged on the disk is never read.

use crate::followed_sites::Farm;
use crate::full_disk::{SmallDisk, is_inside};
use crate::mounts::{Mount, noise};
use crate::program::{program, thorp};
use fixtures::mounts::has_passthrough;
use fixtures::{Program, flip, http, until};
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// A file of several chunks.
const LARGE_BYTES: usize = 3_000_000;

fn mounted(farm: &Farm, bytes: &str) -> Mount {
    Mount::new(farm, farm.address, "mnt", &["--passthrough", bytes, "--admin", "127.0.0.1:0"])
}

fn count(mount: &Mount, column: &str) -> u64 {
    mount.figures()[column].as_u64().unwrap()
}

/// The assembled files on the disk, by their lengths.
fn assembled(farm: &Farm) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(Path::new(&farm.place.file("mnt-cache")).join("assembled")).unwrap();
    let of = |path: PathBuf| fs::metadata(&path).ok().map(|metadata| (path, metadata.len()));
    entries.filter_map(|entry| of(entry.unwrap().path())).collect()
}

fn whole(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Opens a file until the kernel reads it by itself.
fn passed_through(mount: &Mount, path: &str) -> File {
    let mut opened = None;
    until(&format!("{path} is opened with passthrough"), || {
        // The handle of an earlier attempt would keep the inode cached.
        drop(opened.take());
        let before = count(mount, "passthrough_opens");
        opened = Some(File::open(mount.path(path)).unwrap());
        count(mount, "passthrough_opens") > before
    });
    opened.unwrap()
}

#[test]
fn the_kernel_reads_what_was_published_and_open_files_keep_it() {
    if !has_passthrough() {
        return;
    }
    let farm = Farm::new();
    farm.run(&["site", "create", "shop", "--keep", "2"]).ok();
    farm.place.write("large", noise(LARGE_BYTES, 1));
    farm.place.write("small", noise(10_000, 1));
    let program = fs::read("/bin/bash").unwrap();
    farm.place.write("bin/bash", &program);
    fs::set_permissions(farm.place.www().join("bin/bash"), Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(farm.place.www().join("large"), farm.place.www().join("same")).unwrap();
    farm.publish(&[]).ok();
    let mount = mounted(&farm, "64M");
    // An inode with cached handles is cached until the last one is closed.
    let cached = File::open(mount.path("large")).unwrap();
    until("it is assembled", || count(&mount, "assembled") == 1);
    let more = [mount.path("large"), mount.path("same")].map(|path| File::open(path).unwrap());
    assert_eq!(count(&mount, "passthrough_opens"), 0);
    assert!(more.iter().chain([&cached]).all(|file| whole(file) == noise(LARGE_BYTES, 1)));
    drop((cached, more));
    // And the other way round: with a backing until the last one is closed.
    let first = passed_through(&mount, "large");
    let before = count(&mount, "passthrough_opens");
    let second = File::open(mount.path("same")).unwrap();
    assert_eq!(count(&mount, "passthrough_opens"), before + 1, "its hard link is one inode with it");
    let reads = count(&mount, "reads");
    assert!(whole(&first) == noise(LARGE_BYTES, 1));
    let mut part = vec![0; 500_000];
    second.read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part == noise(LARGE_BYTES, 1)[1_234_567..1_734_567]);
    assert_eq!(count(&mount, "reads"), reads, "the kernel has asked for nothing");
    drop(first);
    let third = File::open(mount.path("large")).unwrap();
    assert!(whole(&second) == noise(LARGE_BYTES, 1) && whole(&third) == noise(LARGE_BYTES, 1));
    // The kernel maps a program into memory instead of reading it.
    drop(passed_through(&mount, "bin/bash"));
    let before = count(&mount, "passthrough_opens");
    let ran = Command::new(mount.path("bin/bash")).args(["-c", "echo mapped"]).output().unwrap();
    assert_eq!((ran.stdout, ran.stderr), (b"mapped\n".to_vec(), Vec::new()));
    assert!(count(&mount, "passthrough_opens") > before && fs::read(mount.path("bin/bash")).unwrap() == program);
    // Small files are not assembled.
    for _ in 0..3 {
        assert!(fs::read(mount.path("small")).unwrap() == noise(10_000, 1));
    }
    assert_eq!(count(&mount, "assembled"), 2);
    // Open files keep what they had, whatever is published; new opens see it.
    for round in 2..6 {
        farm.place.write("large", noise(LARGE_BYTES, round));
        farm.publish(&["--wait"]).ok();
        assert!(fs::read(mount.path("large")).unwrap() == noise(LARGE_BYTES, round));
        let now = passed_through(&mount, "large");
        assert!(whole(&now) == noise(LARGE_BYTES, round));
        second.read_exact_at(&mut part, 1_234_567).unwrap();
        assert!(part == noise(LARGE_BYTES, 1)[1_234_567..1_734_567]);
    }
    // The same content at another inode is there already.
    let before = (count(&mount, "passthrough_opens"), count(&mount, "assembled"));
    assert!(fs::read(mount.path(".thorp/at/5/large")).unwrap() == noise(LARGE_BYTES, 5));
    assert_eq!((count(&mount, "passthrough_opens"), count(&mount, "assembled")), (before.0 + 1, before.1));
}

#[test]
fn assembled_files_keep_their_bound() {
    if !has_passthrough() {
        return;
    }
    let farm = Farm::new();
    for file in 0..6 {
        farm.place.write(&file.to_string(), noise(1_000_000, file));
    }
    farm.place.write("huge", noise(4_000_000, 7));
    farm.publish(&[]).ok();
    let mount = mounted(&farm, "3500000");
    let check = || {
        let (files, bytes) = (assembled(&farm), count(&mount, "assembled_bytes"));
        let on_disk: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        assert!(on_disk <= 3_500_000 && bytes <= 3_500_000, "{bytes}: {files:?}");
    };
    let open = passed_through(&mount, "0");
    for round in 0..12 {
        let file = 1 + round % 5;
        assert!(whole(&passed_through(&mount, &file.to_string())) == noise(1_000_000, file));
        assert!(fs::read(mount.path("huge")).unwrap() == noise(4_000_000, 7));
        check();
    }
    assert_eq!(count(&mount, "assembled"), 3);
    assert!(whole(&open) == noise(1_000_000, 0));
    // With all of the room open, others are read as usual.
    let others = ["1", "2"].map(|path| passed_through(&mount, path));
    for _ in 0..3 {
        assert!(fs::read(mount.path("3")).unwrap() == noise(1_000_000, 3));
        check();
    }
    assert!(whole(&others[0]) == noise(1_000_000, 1) && whole(&open).is_empty());
}

/// An open that is interrupted leaves no handle, by which later ones would have to be of its kind.
#[test]
fn killed_readers_leave_nothing_open() {
    if !has_passthrough() {
        return;
    }
    let farm = Farm::new();
    farm.place.write("large", noise(LARGE_BYTES, 1));
    farm.publish(&[]).ok();
    let mount = mounted(&farm, "64M");
    drop(passed_through(&mount, "large"));
    for round in 0..100 {
        let mut reader = Command::new("cat").arg(mount.path("large")).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(30 * round));
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    until("all are closed", || count(&mount, "open") == 0);
    assert!(whole(&passed_through(&mount, "large")) == noise(LARGE_BYTES, 1));
}

/// Files of an earlier start are verified before they are used.
#[test]
fn a_damaged_assembled_file_is_assembled_again() {
    if !has_passthrough() {
        return;
    }
    let farm = Farm::new();
    let names = ["a", "b"];
    for (name, seed) in names.into_iter().zip(1..) {
        farm.place.write(name, noise(LARGE_BYTES, seed));
    }
    farm.publish(&[]).ok();
    let mut mount = mounted(&farm, "64M");
    for name in names {
        drop(passed_through(&mount, name));
    }
    mount.kill();
    let files = assembled(&farm);
    assert_eq!(files.len(), 2);
    flip(&files[0].0);
    mount.start_again();
    assert_eq!(count(&mount, "assembled"), 2);
    for (name, seed) in names.into_iter().zip(1..) {
        let mut reads = 0;
        let before = count(&mount, "passthrough_opens");
        until("it is passed through", || {
            assert!(fs::read(mount.path(name)).unwrap() == noise(LARGE_BYTES, seed), "{name}");
            reads += 1;
            count(&mount, "passthrough_opens") > before
        });
        assert!(reads > 1, "it was read before it was verified");
    }
    // A mount without it removes what it has left.
    drop(mount);
    let mount = Mount::new(&farm, farm.address, "mnt", &[]);
    assert!(!Path::new(&farm.place.file("mnt-cache")).join("assembled").exists());
    assert!(fs::read(mount.path("a")).unwrap() == noise(LARGE_BYTES, 1));
}

#[test]
fn a_disk_without_room_for_assembled_files_costs_passthrough_alone() {
    if !has_passthrough() || !is_inside("passthrough::a_disk_without_room_for_assembled_files_costs_passthrough_alone")
    {
        return;
    }
    let disk = SmallDisk::new(50);
    let farm = Farm::new();
    farm.place.write("large", noise(30_000_000, 1));
    farm.publish(&[]).ok();
    std::os::unix::fs::symlink(disk.0.path().join("cache"), farm.place.path().join("mnt-cache")).unwrap();
    fs::create_dir(disk.0.path().join("cache")).unwrap();
    let mount = mounted(&farm, "64M");
    let read = || assert!(fs::read(mount.path("large")).unwrap() == noise(30_000_000, 1));
    until("it is reported", || {
        read();
        mount.health().contains("could not be assembled")
    });
    assert_eq!((count(&mount, "assembled"), assembled(&farm).len()), (0, 0));
    disk.resize(200);
    until("there is room", || {
        read();
        count(&mount, "passthrough_opens") > 0
    });
    read();
    drop(mount);
    drop(farm);
}

/// Root of a namespace of users may mount, and the kernel lets it have no backing files.
#[test]
fn a_mount_without_the_right_to_passthrough_says_so_and_works() {
    if !has_passthrough() {
        return;
    }
    let outside = ["unshare", "-Urm", "true"];
    if !Command::new(outside[0]).args(&outside[1..]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no namespaces of users here");
        return;
    }
    let farm = Farm::new();
    farm.place.write("large", noise(LARGE_BYTES, 1));
    farm.publish(&[]).ok();
    let (at, cache, server) = (farm.place.path().join("mnt"), farm.place.file("cache"), farm.address.to_string());
    fs::create_dir(&at).unwrap();
    let inside = Program { run: vec!["unshare".to_owned(), "-Urm".to_owned()], ..program() };
    let words = ["mount", "shop", at.to_str().unwrap(), "--server", &server, "--cache", &cache];
    let more = ["--passthrough", "64M", "--admin", "127.0.0.1:0"];
    let process = inside.start("a mount", &[&words[..], &more].concat()).unwrap();
    process.hear_error("files are read without passthrough").unwrap();
    let (_, health) = http::get(process.address_of("admin"), "/health").unwrap();
    assert!(health.contains("without passthrough"), "{health}");
    let seen = PathBuf::from(format!("/proc/{}/root{}", process.id(), at.display())).join("large");
    for _ in 0..3 {
        assert!(fs::read(&seen).unwrap() == noise(LARGE_BYTES, 1));
    }
    let figures = &process.status().unwrap()["mount"][0];
    assert_eq!((&figures["passthrough_opens"], &figures["assembled"]), (&0.into(), &0.into()), "{figures}");
    process.end().unwrap();
}

#[test]
fn passthrough_is_refused_where_files_are_written_or_kept_in_part() {
    let words = ["mount", "shop", "/mnt", "--server", "127.0.0.1:1", "--cache", "/nowhere", "--passthrough", "1G"];
    for (other, words) in [
        ("--write", [&words[..], &["--write"]].concat()),
        ("--cache-bytes", [&words[..], &["--cache-bytes", "1G"]].concat()),
    ] {
        let refused = thorp(words);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("--passthrough") && refused.stderr.contains(other), "{}", refused.stderr);
    }
}
