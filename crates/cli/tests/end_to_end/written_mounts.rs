//! A mounted site that programs change: names at once, files when they are closed, and nothing of others is
//! overwritten.

use crate::followed_sites::Farm;
use crate::mounted_volumes::{FSX, fsx, is_right};
use crate::mounts::{Mount, compare, names};
use crate::program::{Folder, tool};
use fixtures::installed::run;
use fixtures::mounts::has_fuse;
use fixtures::{Process, until};
use rustix::fs::{XattrFlags, fsetxattr, getxattr};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// A farm with a site, and a mount of it that can be written.
fn written(name: &str) -> (Farm, Mount) {
    written_with(name, &[])
}

/// A farm with a site, and a mount of it that can be written, with more arguments.
pub(crate) fn written_with(name: &str, more: &[&str]) -> (Farm, Mount) {
    let farm = Farm::new();
    farm.place.write("a", "one");
    farm.place.write("dir/b", "two");
    farm.publish(&[]).ok();
    let mount = Mount::new(&farm, farm.address, name, &[&["--write", "--allow-other"], more].concat());
    (farm, mount)
}

#[test]
fn files_are_private_until_they_are_closed_and_names_change_at_once() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written("one");
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    // A new file, and one that is there.
    let mut new = File::create(one.path("dir/new")).unwrap();
    let mut old = OpenOptions::new().append(true).open(one.path("a")).unwrap();
    new.write_all(b"new").unwrap();
    old.write_all(b", more").unwrap();
    assert_eq!(one.text("a"), "one, more", "programs of one host share the file");
    assert_eq!((one.text("dir/new"), names(&one.path("dir"))), ("new".into(), vec!["b".into(), "new".into()]));
    fs::create_dir(one.path("made")).unwrap();
    until("a directory is seen at once", || other.path("made").is_dir());
    assert_eq!((other.text("a"), names(&other.path("dir"))), ("one".into(), vec!["b".into()]));
    drop((new, old));
    until("a file is seen when it is closed", || other.text("a") == "one, more");
    assert_eq!(other.text("dir/new"), "new");
    // Names.
    fs::rename(one.path("dir"), one.path("made/moved")).unwrap();
    fs::hard_link(one.path("a"), one.path("made/same")).unwrap();
    symlink("a", one.path("link")).unwrap();
    fs::rename(one.path("link"), one.path("made/link")).unwrap();
    fs::set_permissions(one.path("made/moved/new"), Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(one.path("made/moved/b")).unwrap();
    let status = |mount: &Mount| mount.status()["revision"].as_u64().unwrap();
    until("the other one has all", || status(&other) == status(&one));
    compare(&one.at, &other.at);
    assert_eq!(fs::metadata(one.path("a")).unwrap().nlink(), 2);
    // A change of one name is one of the other.
    fs::write(other.path("made/same"), "by the other").unwrap();
    until("it is here", || one.text("a") == "by the other");
    assert!(fs::remove_dir(one.path("made")).is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty));
    fs::remove_dir_all(one.path("made")).unwrap();
    until("it is gone", || names(&other.at) == ["a"]);
}

#[test]
fn a_file_is_published_once_and_an_empty_one_too() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written("one");
    // The shell opens the file, and closes the first of two descriptors before anything is written.
    let script = "cd \"$1\"; (echo first; sleep 0.2; echo second) > words; : > empty; mv empty moved";
    run("bash", ["-c", script, "bash", one.at.to_str().unwrap()]).unwrap();
    let other = Mount::new(&farm, farm.address, "other", &[]);
    until("both are there", || other.path("moved").exists());
    assert_eq!((other.text("words"), other.text("moved")), ("first\nsecond\n".into(), String::new()));
    let log = farm.run(&["site", "log", "shop", "--json"]).ok();
    let size = |line: &str| serde_json::from_str::<Value>(line).unwrap()["bytes"].as_u64().unwrap();
    let sizes: BTreeSet<u64> = log.lines().map(size).collect();
    let (before, after) = (6, 6 + "first\nsecond\n".len() as u64);
    assert_eq!(sizes, BTreeSet::from([before, after]), "no revision has a part of the words");
}

#[test]
fn a_file_of_some_size_is_changed_in_its_middle() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written("one");
    let mut expected: Vec<u8> = (0..9_000_000_u32).flat_map(u32::to_le_bytes).take(9_000_000).collect();
    fs::write(one.path("large"), &expected).unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(one.path("large")).unwrap();
    file.write_all_at(b"changed", 5_000_000).unwrap();
    expected[5_000_000..5_000_007].copy_from_slice(b"changed");
    file.set_len(8_000_000).unwrap();
    expected.truncate(8_000_000);
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    assert!(read == expected);
    drop(file);
    let other = Mount::new(&farm, farm.address, "other", &[]);
    assert!(fs::read(other.path("large")).unwrap() == expected);
    // It is open, and removed: it is what it was for those who have it.
    let mut open = File::open(one.path("large")).unwrap();
    fs::remove_file(one.path("large")).unwrap();
    fs::write(one.path("large"), "small").unwrap();
    let mut read = Vec::new();
    open.read_to_end(&mut read).unwrap();
    assert!(read == expected && open.metadata().unwrap().nlink() == 0);
    until("the new one is there", || fs::read(other.path("large")).is_ok_and(|read| read == b"small"));
}

/// Waits for a file that was set aside, and returns its content.
fn set_aside(farm: &Farm) -> String {
    let aside = farm.place.path().join("one-cache/writes/aside");
    until("it is set aside", || !names(&aside).is_empty());
    fs::read_to_string(aside.join(&names(&aside)[0])).unwrap()
}

#[test]
fn a_file_that_another_host_has_changed_is_not_overwritten() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written("one");
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    let program = Program::begin(&one.path("a"), "ONE");
    until("it is written", || one.text("a") == "ONE");
    fs::write(other.path("a"), "by the other").unwrap();
    until("it is here", || one.text("a") == "by the other");
    let error = program.end().unwrap_err();
    assert!(error.contains("Stale file handle"), "{error}");
    assert_eq!((one.text("a"), set_aside(&farm)), ("by the other".into(), "ONE".into()));
    // A new file of one name at both.
    let program = Program::begin(&one.path("new"), "by one");
    until("it is written", || one.path("new").exists());
    fs::write(other.path("new"), "by the other").unwrap();
    until("it is there", || other.path("new").exists());
    let error = program.end().unwrap_err();
    assert!(error.contains("Stale file handle"), "{error}");
    until("it is the other's", || fs::read(one.path("new")).is_ok_and(|read| read == b"by the other"));
}

/// A program that has written a file, and closes it when it is told to.
struct Program(Child);

impl Program {
    fn begin(path: &Path, text: &str) -> Self {
        let mut command = Command::new("dd");
        command.arg(format!("of={}", path.display())).args(["bs=64k", "conv=notrunc", "status=none"]);
        let mut dd = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        dd.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        Self(dd)
    }

    /// Closes the file. Returns the program's error message if that fails.
    fn end(self) -> Result<(), String> {
        let ended = self.0.wait_with_output().unwrap();
        if ended.status.success() { Ok(()) } else { Err(String::from_utf8(ended.stderr).unwrap()) }
    }
}

#[test]
fn hosts_that_append_to_one_file_lose_nothing() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written("one");
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    let append = |mount: &Mount, name: &str| {
        for round in 0..15 {
            let mut file = OpenOptions::new().append(true).open(mount.path("a")).unwrap();
            writeln!(file, "{name} {round}").unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| append(&one, "one"));
        append(&other, "other");
    });
    // The first line goes on behind what was there.
    until("all lines are there", || one.text("a").lines().count() == 30);
    let lines = |name: &str| one.text("a").lines().filter(|line| line.contains(name)).count();
    assert_eq!((lines("one "), lines("other ")), (15, 15), "{}", one.text("a"));
}

#[test]
fn the_file_of_a_mount_that_is_killed_is_set_aside() {
    if !has_fuse() {
        return;
    }
    let (farm, mut one) = written("one");
    fs::write(one.path("closed"), "closed").unwrap();
    let mut file = OpenOptions::new().append(true).open(one.path("a")).unwrap();
    file.write_all(b", unfinished").unwrap();
    one.kill();
    drop(file);
    one.start_again();
    assert_eq!((one.text("closed"), one.text("a")), ("closed".into(), "one".into()));
    assert_eq!(set_aside(&farm), "one, unfinished");
    fs::write(one.path("a"), "again").unwrap();
    assert_eq!(one.text("a"), "again");
}

/// The kinds of files that a site does not have.
const NO_KINDS: [&str; 4] = ["fifo", "socket", "block", "char"];

/// The other cases that fail: each makes such a file, but for one. That wants the number of links of a directory to be
/// that of its subdirectories, which no tree says; one link tells programs not to count by it.
const NOT_PASSED: [&str; 9] = [
    "mkfifo::changed_time_fields_success",
    "mkfifo::permission_bits_from_mode",
    "mkfifo::uid_gid_eq_euid_egid",
    "mknod::changed_time_fields_success",
    "mknod::permission_bits_from_mode",
    "mknod::uid_gid_eq_euid_egid",
    "open::fifo_nonblock_wronly",
    "open::socket_error",
    "rename::updates_link_parent",
];

/// The settings of the tests of POSIX.
const PJDFSTEST: &str = "
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]
";

#[test]
fn a_mount_passes_the_tests_of_posix() {
    passes_the_tests_of_posix(&[]);
}

/// Runs them on a mount with these arguments.
pub(crate) fn passes_the_tests_of_posix(more: &[&str]) {
    let Some(tests) = tool("bin/pjdfstest").filter(|_| has_fuse()) else { return };
    let (_farm, mount) = written_with("one", more);
    let folder = Folder::new();
    let config = folder.write("pjdfstest.toml", PJDFSTEST);
    fs::create_dir(mount.path("tests")).unwrap();
    let mut command = Command::new(tests);
    command.args(["-c", &config, "-p"]).arg(mount.path("tests"));
    let ran = Process::spawn(command, "pjdfstest").unwrap().ended().unwrap();
    let cases = |outcome: &str| -> BTreeSet<&str> {
        let of = ran.stdout.lines().filter(|line| line.trim_end().ends_with(outcome));
        of.filter_map(|line| line.split_whitespace().next()).collect()
    };
    let is_excused = |case: &str| {
        NOT_PASSED.contains(&case) || case.rsplit_once("::").is_some_and(|(_, kind)| NO_KINDS.contains(&kind))
    };
    let failed: Vec<_> = cases("FAILED").into_iter().filter(|case| !is_excused(case)).collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", ran.stdout);
    assert!(cases("ok").len() >= 200, "{}", ran.stdout);
}

#[test]
fn a_file_of_a_mount_is_exercised() {
    exercises_files(&[], |_, _| ());
}

/// Exercises files of a mount with these arguments, and compares them with what others see behind `publish`.
pub(crate) fn exercises_files(more: &[&str], publish: impl FnOnce(&Farm, &Mount)) {
    let Some(exerciser) = tool("bin/fsx").filter(|_| has_fuse()) else { return };
    let (farm, mount) = written_with("one", more);
    let folder = Folder::new();
    // Each close is a publish.
    let config = FSX.replace("close_open = 1.0", "close_open = 5.0");
    let start = |seed: u32| {
        let file = mount.path(&format!("exercised-{seed}"));
        fsx(&exerciser, &folder, &config, file.to_str().unwrap(), seed, Some(1500))
    };
    [1, 2].map(start).into_iter().for_each(is_right);
    publish(&farm, &mount);
    // It is in the store as it is here.
    let other = Mount::new(&farm, farm.address, "other", &[]);
    compare(&mount.at, &other.at);
}

#[test]
fn an_archive_is_unpacked_and_changed_by_the_usual_programs() {
    unpacks_an_archive(&[], |_, _| ());
}

/// Has the usual programs work on a mount with these arguments, and compares it with what others see behind `publish`.
pub(crate) fn unpacks_an_archive(more: &[&str], publish: impl FnOnce(&Farm, &Mount)) {
    if !has_fuse() {
        return;
    }
    let (farm, mount) = written_with("one", more);
    let source = farm.place.path().join("source");
    let script = r#"
        set -e
        mkdir -p "$1/sub/deep"; seq 1000 > "$1/numbers"; echo x > "$1/sub/deep/x"; ln -s ../numbers "$1/sub/link"
        ln "$1/numbers" "$1/sub/again"; chmod 750 "$1/sub/deep"; touch -d 2001-02-03 "$1/sub/deep/x"
        tar -C "$1" --format=posix -cf - . | tar -C "$2" -xpf -
        cp -a "$1" "$2/copied"
        mv "$2/copied" "$2/moved"
        sed -i s/500/five/ "$2/moved/numbers"
        cd "$2/moved/sub" && echo here > here && pwd > /dev/null && mkdir more && cd more && pwd -P > /dev/null
        flock "$2/lock" true
        cp "$2/moved/numbers" "$2/kept"; cat "$2/kept" >> "$2/kept.2"
        dd if=/dev/zero of="$2/zeros" bs=64k count=20 status=none
        rm "$2/lock"
    "#;
    let [from, to] = [&source, &mount.at].map(|path| path.to_str().unwrap());
    run("bash", ["-c", script, "bash", from, to]).unwrap();
    assert!(fs::read_to_string(mount.path("moved/numbers")).unwrap().contains("\nfive\n"));
    assert_eq!(fs::metadata(mount.path("zeros")).unwrap().len(), 20 * 65536);
    compare(&source.join("sub"), &mount.path("sub"));
    publish(&farm, &mount);
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    compare(&mount.at, &other.at);
}

#[test]
fn a_new_file_without_content_takes_attributes_and_is_never_missing() {
    makes_empty_files(&[], |_, _| ());
}

/// Makes files without content in a mount with these arguments, changes their attributes before and behind their close,
/// and compares them with what others see behind `publish`.
pub(crate) fn makes_empty_files(more: &[&str], publish: impl FnOnce(&Farm, &Mount)) {
    if !has_fuse() {
        return;
    }
    let (farm, mount) = written_with("one", more);
    let at = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::create(mount.path("dir/held")).unwrap();
    file.set_permissions(Permissions::from_mode(0o604)).unwrap();
    fchown(&file, Some(7), Some(8)).unwrap();
    fsetxattr(&file, "user.kind", b"new", XattrFlags::empty()).unwrap();
    file.set_modified(at).unwrap();
    drop(file);
    let found = fs::metadata(mount.path("dir/held")).unwrap();
    assert_eq!((found.mode() & 0o777, found.uid(), found.gid(), found.mtime()), (0o604, 7, 8, 1_000_000_000));
    run("touch", [mount.path("dir/touched").to_str().unwrap()]).unwrap();
    // The kernel tells a mount of a close when the program has gone on.
    for made in 0..100 {
        let path = mount.path(&format!("dir/made-{made}"));
        File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(names(&mount.path("dir")).len(), made + 4);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
    publish(&farm, &mount);
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    until("the other one has all", || names(&other.path("dir")).len() == 103);
    compare(&mount.at, &other.at);
    let mut kind = [0; 8];
    let bytes = getxattr(other.path("dir/held"), "user.kind", &mut kind).unwrap();
    assert_eq!(&kind[..bytes], b"new");
}
