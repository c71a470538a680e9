//! File systems on volumes, on this machine: a volume as a file by libnbd's `nbdfuse`, a loop device over it, and a
//! mount.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether file systems can be mounted here. In CI the programs have to be there; where the system lets us mount
/// nothing, the test says so and is skipped.
pub(crate) fn can_mount() -> bool {
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    let programs = ["nbdfuse", "mkfs.ext4", "e2fsck", "debugfs", "losetup", "mount", "umount", "fstrim"];
    let missing: Vec<_> = programs.into_iter().filter(|program| !has(program)).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "not installed: {missing:?}");
    let opens = |file: &str| File::options().read(true).write(true).open(file).is_ok();
    let can = opens("/dev/fuse") && opens("/dev/loop-control");
    if !missing.is_empty() || !can {
        eprintln!("skipped: no file systems are mounted here (missing: {missing:?}; devices: {can})");
    }
    missing.is_empty() && can
}

/// Runs a program that has to succeed; gives what it says.
#[track_caller]
pub(crate) fn run(program: &str, words: &[&str]) -> String {
    let ran = Command::new(program).args(words).output().unwrap();
    assert!(ran.status.success(), "{program} {words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Counts that ext4 brings up to date when it is unmounted; a mount counts again.
const COUNTED_LATER: [&str; 2] = ["Free blocks count wrong (", "Free inodes count wrong ("];

/// Looks at an ext4 in a file that was not unmounted. Its journal is replayed, as a mount does, and nothing is
/// repaired.
pub(crate) fn check_ext4(file: &str) -> Result<(), String> {
    let replayed = Command::new("e2fsck").args(["-y", "-E", "journal_only", file]).output().unwrap();
    let checked = Command::new("e2fsck").args(["-f", "-n", file]).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    let found: Vec<_> = said.lines().filter(|line| line.ends_with("? no")).collect();
    let is_counted_later = |line: &&str| COUNTED_LATER.iter().any(|known| line.starts_with(known));
    let is_whole = checked.status.success() || !found.is_empty() && found.iter().all(is_counted_later);
    if is_whole { Ok(()) } else { Err(format!("the file system is not whole: {said}\nafter {replayed:?}")) }
}

/// Copies all files of an ext4 in a file to a folder, which is made again.
pub(crate) fn copy_files(file: &str, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    let command = format!("rdump / {}", to.display());
    let copied = Command::new("debugfs").args(["-R", &command, file]).output().unwrap();
    // On a full disk `debugfs` reports success, and leaves truncated files.
    let said = String::from_utf8_lossy(&copied.stderr);
    assert!(copied.status.success() && !said.contains("rdump:"), "the files cannot be copied: {said}");
}

/// A volume as a file, by `nbdfuse`.
pub(crate) struct Fuse {
    process: Child,
    folder: PathBuf,
    pub(crate) file: String,
}

impl Fuse {
    pub(crate) fn new(folder: &Path, socket: &Path) -> Self {
        let path = folder.join("fuse");
        std::fs::create_dir_all(&path).unwrap();
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let process = Command::new("nbdfuse").arg(&path).arg(uri).stderr(Stdio::null()).spawn().unwrap();
        let file = path.join("nbd");
        let begun = Instant::now();
        while !file.exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nbdfuse mounts nothing");
            thread::sleep(Duration::from_millis(20));
        }
        Self { process, folder: path, file: file.to_str().unwrap().to_owned() }
    }

    pub(crate) fn end(&mut self) {
        // It may have ended with its server.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.folder).output();
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file system in a file, mounted.
pub(crate) struct Mounted {
    pub(crate) path: PathBuf,
    device: String,
}

impl Mounted {
    pub(crate) fn new(folder: &Path, file: &str) -> Self {
        let path = folder.join("mounted");
        std::fs::create_dir_all(&path).unwrap();
        let device = run("losetup", &["--find", "--show", file]).trim().to_owned();
        let mounted = Self { path, device };
        run("mount", &[&mounted.device, mounted.path.to_str().unwrap()]);
        mounted
    }

    pub(crate) fn end(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}
