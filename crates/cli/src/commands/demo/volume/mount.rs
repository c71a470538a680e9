//! A volume as a disk of this machine: nbdfuse shows it as a file, a loop device makes a disk of that, and ext4 is on
//! it. That takes root, FUSE and loop devices. All of it is undone when it is dropped, in whatever state.

use crate::Result;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// nbdfuse shows the file within this.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// The programs that it takes, by where they are.
pub(super) struct Tools {
    programs: [PathBuf; PROGRAMS.len()],
}

const PROGRAMS: [&str; 6] = ["nbdfuse", "losetup", "mount", "umount", "mkfs.ext4", "e2fsck"];

type Tried<T> = std::result::Result<T, String>;

const NBDFUSE: usize = 0;
const LOSETUP: usize = 1;
const MOUNT: usize = 2;
const UMOUNT: usize = 3;
const MKFS: usize = 4;
const E2FSCK: usize = 5;

impl Tools {
    /// Finds everything that it takes; or says why that is not had here.
    pub(super) fn find() -> Tried<Self> {
        let found = PROGRAMS.map(find);
        let missing: Vec<_> =
            PROGRAMS.iter().zip(&found).filter(|(_, path)| path.is_none()).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            return Err(format!("not installed: {}", missing.join(", ")));
        }
        for device in ["/dev/fuse", "/dev/loop-control"] {
            let opened = File::options().read(true).write(true).open(device);
            opened.map_err(|error| format!("{device} cannot be opened: {error}"))?;
        }
        Ok(Self { programs: found.map(Option::unwrap_or_default) })
    }

    /// Shows the volume at a socket as a file.
    pub(super) fn fuse(&self, folder: &Path, socket: &Path) -> Tried<Fuse> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut command = Command::new(&self.programs[NBDFUSE]);
        command.arg(folder).arg(uri).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|error| format!("nbdfuse does not start: {error}"))?;
        let umount = self.programs[UMOUNT].clone();
        let mut fuse = Fuse { process, folder: folder.to_owned(), file: folder.join("nbd"), umount };
        let begun = Instant::now();
        while !fuse.file.exists() {
            if let Ok(Some(status)) = fuse.process.try_wait() {
                return Err(format!("nbdfuse mounts nothing: {status}"));
            }
            if begun.elapsed() > SHOWN_WITHIN {
                return Err(format!("nbdfuse mounts nothing within {} s", SHOWN_WITHIN.as_secs()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(fuse)
    }

    pub(super) fn make_file_system(&self, file: &Path) -> Tried<()> {
        self.run(MKFS, [OsStr::new("-q"), OsStr::new("-F"), file.as_os_str()]).map(drop)
    }

    /// Mounts the file system in the file.
    pub(super) fn mount(&self, fuse: Fuse, at: &Path) -> Tried<Mounted> {
        std::fs::create_dir_all(at).map_err(|error| format!("{}: {error}", at.display()))?;
        let device = self.run(LOSETUP, [OsStr::new("--find"), OsStr::new("--show"), fuse.file.as_os_str()])?;
        let losetup = self.programs[LOSETUP].clone();
        let device = Loop { device: device.trim().to_owned(), losetup };
        self.run(MOUNT, [OsStr::new("-t"), OsStr::new("ext4"), OsStr::new(&device.device), at.as_os_str()])?;
        let mount = Mount { at: at.to_owned(), umount: self.programs[UMOUNT].clone(), is_mounted: true };
        Ok(Mounted { mount, device, fuse })
    }

    /// Checks the file system, and changes nothing; gives what the check says.
    pub(super) fn check_file_system(&self, file: &Path) -> Tried<Verdict> {
        let ran = Command::new(&self.programs[E2FSCK]).args(["-f", "-n"]).arg(file).stdin(Stdio::null()).output();
        let ran = ran.map_err(|error| format!("e2fsck does not start: {error}"))?;
        let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        Ok(Verdict { is_clean: ran.status.code() == Some(0), said })
    }

    fn run<'a>(&self, program: usize, words: impl IntoIterator<Item = &'a OsStr>) -> Tried<String> {
        let ran = Command::new(&self.programs[program]).args(words).stdin(Stdio::null()).output();
        let ran = ran.map_err(|error| format!("{} does not start: {error}", PROGRAMS[program]))?;
        if ran.status.success() {
            return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
        }
        let why = String::from_utf8_lossy(&ran.stderr).trim().replace('\n', "; ");
        Err(format!("{}: {why}", PROGRAMS[program]))
    }
}

/// The word of e2fsck.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) is_clean: bool,
    pub(super) said: String,
}

/// A program on the path, or where those of the system's operator are.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A volume as a file.
pub(super) struct Fuse {
    process: Child,
    folder: PathBuf,
    file: PathBuf,
    umount: PathBuf,
}

impl Fuse {
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        quietly(Command::new(&self.umount).arg(&self.folder));
        // One that is in use is gone when that is over.
        quietly(Command::new(&self.umount).arg("-l").arg(&self.folder));
        // It has ended with its mount, or with its server.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A loop device, until it is dropped.
struct Loop {
    device: String,
    losetup: PathBuf,
}

impl Drop for Loop {
    fn drop(&mut self) {
        quietly(Command::new(&self.losetup).args(["--detach", &self.device]));
    }
}

/// A mounted file system, until it is dropped.
struct Mount {
    at: PathBuf,
    umount: PathBuf,
    is_mounted: bool,
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted {
            quietly(Command::new(&self.umount).arg("-l").arg(&self.at));
        }
    }
}

/// A file system on a volume. It is undone in the order of the fields.
pub(super) struct Mounted {
    mount: Mount,
    device: Loop,
    fuse: Fuse,
}

impl Mounted {
    pub(super) fn path(&self) -> &Path {
        &self.mount.at
    }

    pub(super) fn device(&self) -> &str {
        &self.device.device
    }

    /// Unmounts it in good order: everything is on the volume then.
    pub(super) fn unmount(self) -> Result<Fuse> {
        let Self { mut mount, device, fuse } = self;
        let ran = Command::new(&mount.umount).arg(&mount.at).stdin(Stdio::null()).output()?;
        if !ran.status.success() {
            return Err(format!("umount: {}", String::from_utf8_lossy(&ran.stderr).trim()).into());
        }
        mount.is_mounted = false;
        drop((mount, device));
        Ok(fuse)
    }

    /// Its disk is gone: so is all of it.
    pub(super) fn abandon(self) {
        drop(self);
    }
}

/// Runs a program whose failure means that there is nothing to be done.
fn quietly(command: &mut Command) {
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
