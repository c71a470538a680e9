//! A cache whose disk fails: writes to it are EIO from some moment on, as those of an SSD that is worn out, and it can
//! be read. The disk is an image behind nbdkit's error filter, with ext4 on it.

use crate::full_volumes::{Pieces, attach_by, connect};
use crate::program::{Folder, Ran, thorp};
use crate::stored_volumes::Site;
use fixtures::installed::run;
use fixtures::mounts::{Fuse, Mounted, can_mount};
use fixtures::{Ended, Process, until};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

const SIZE: usize = 4 << 20;

/// A disk that fails while there is a file that says so.
struct Disk {
    // In the order in which they end.
    mounted: Option<Mounted>,
    fuse: Fuse,
    _server: Process,
    folder: Folder,
}

impl Disk {
    fn new() -> Self {
        let folder = Folder::new();
        let (image, socket, fails) = (folder.file("image"), folder.file("disk.nbd"), folder.file("fails"));
        std::fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
        let mut words: Vec<String> =
            ["-f", "-U", &socket, "--filter=error", "file", &image].map(str::to_owned).to_vec();
        words.push(format!("error-file={fails}"));
        for call in ["pwrite", "zero", "trim"] {
            words.extend([format!("error-{call}=EIO"), format!("error-{call}-rate=100%")]);
        }
        let mut command = Command::new("nbdkit");
        command.args(words);
        let (server, socket) = (Process::spawn(command, "nbdkit").unwrap(), PathBuf::from(socket));
        until("nbdkit listens", || socket.exists());
        let fuse = Fuse::new(&folder.path().join("fuse"), &socket).unwrap();
        run("mkfs.ext4", ["-q", "-F", &fuse.file]).unwrap();
        let mounted = Some(Mounted::new(folder.path().join("mounted"), &fuse.file).unwrap());
        Self { mounted, fuse, _server: server, folder }
    }

    fn cache(&self) -> String {
        self.mounted.as_ref().unwrap().path.join("cache").to_str().unwrap().to_owned()
    }

    fn fail(&self) {
        self.folder.write("fails", "");
    }

    /// It works again, and its file system is repaired.
    fn work(&mut self) {
        self.mounted = None;
        std::fs::remove_file(self.folder.path().join("fails")).unwrap();
        // An earlier write error is reported by the next sync, which may be that of the first repair.
        let repair = || Command::new("e2fsck").args(["-f", "-y", &self.fuse.file]).output().unwrap();
        until("the file system is repaired", || repair().status.code().is_some_and(|code| code < 4));
        self.mounted = Some(Mounted::new(self.folder.path().join("mounted"), &self.fuse.file).unwrap());
    }
}

/// A volume of one host continues without its cache. It is killed then, and the disk works again: what the cache has is
/// older than home, and is not taken for the newest. A volume that is detached without its cache is home.
#[test]
fn a_volume_goes_on_without_its_cache() {
    if !can_mount() {
        return;
    }
    let (folder, mut disk) = (Folder::new(), Disk::new());
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "4M"]).ok();
    let mut pieces = Pieces::new(SIZE);
    for (life, ack) in [(1, "flush"), (2, "write"), (3, "flush")] {
        // Everything of before is home by now.
        let (owner, address) =
            attach_by(&home, &disk.cache(), &folder, &["--dirty", "8M", "--age-s", "1", "--ack", ack, "--force"])
                .unwrap();
        let mut client = connect(&address);
        pieces.check(&mut client);
        assert!(pieces.write(&mut client, 10 * life));
        disk.fail();
        for version in 1..=3 {
            assert!(pieces.write(&mut client, 10 * life + version));
        }
        owner.hear_error("the volume continues without it").unwrap();
        let said = thorp(["volume", "status", "--cache", &disk.cache()]).ok();
        assert!(said.contains("it has failed, and the volume continues without it"), "{said}");
        pieces.check(&mut client);
        if life < 3 {
            drop(owner);
            disk.work();
            let (owner, address) = attach_by(&home, &disk.cache(), &folder, &["--dirty", "8M", "--force"]).unwrap();
            pieces.check(&mut connect(&address));
            owner.end().unwrap();
        } else {
            assert!(owner.end().unwrap().stdout.contains("detached"));
            let bytes = std::fs::read(&home).unwrap();
            assert!(bytes.chunks(8).all(|part| part == (10 * life + 3).to_le_bytes()), "all of it is home");
        }
    }
}

/// A cache that was left behind is refused, by that reason, if it has writes; and a volume may be told to stop.
#[test]
fn a_volume_stops_when_it_is_told_to_and_a_lost_cache_is_refused() {
    if !can_mount() {
        return;
    }
    let (folder, mut disk) = (Folder::new(), Disk::new());
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "4M"]).ok();
    let mut pieces = Pieces::new(SIZE);
    let stop = ["--dirty", "8M", "--age-s", "3600", "--on-cache-failure", "stop"];
    let (owner, address) = attach_by(&home, &disk.cache(), &folder, &stop).unwrap();
    assert!(pieces.write(&mut connect(&address), 1));
    disk.fail();
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = connect(&address);
            let data = vec![2; 4096];
            (0..1024)
                .map_while(|at| {
                    let write = fixtures::nbd_client::Command::Write { offset: at * 4096, data: &data, fua: true };
                    client.call(&write).ok().map(|reply| reply.error)
                })
                .find(|error| *error != 0)
        });
        writer.join().unwrap()
    });
    assert_eq!(written, Some(5), "EIO");
    let said = Ran::from(owner.ended().unwrap()).stderr;
    assert!(said.contains("Input/output error") && said.contains("nothing was given up"), "{said}");
    disk.work();
    // Where it was told to stop, the cache has what was promised.
    let more = ["--dirty", "8M", "--age-s", "3600"];
    let (owner, address) = attach_by(&home, &disk.cache(), &folder, &more).unwrap();
    let mut client = connect(&address);
    assert!(pieces.write(&mut client, 3));
    disk.fail();
    assert!(pieces.write(&mut client, 4));
    drop(owner);
    disk.work();
    let refused = attach_by(&home, &disk.cache(), &folder, &more).map(drop).unwrap_err();
    assert!(refused.contains("went on without it: all of it is home"), "{refused}");
    let (owner, address) = attach_by(&home, &folder.file("another"), &folder, &more).unwrap();
    pieces.check(&mut connect(&address));
    owner.end().unwrap();
}

/// The same of a volume with copies: what a clean block has is older than home when the host comes back with its cache.
#[test]
fn a_volume_of_a_store_goes_on_without_its_cache() {
    if !can_mount() {
        return;
    }
    let mut disk = Disk::new();
    let site = Site::new(1);
    site.create_with("2", "4M");
    let mut pieces = Pieces::new(SIZE);
    let attach = |disk: &Disk| site.attach_with_cache("host", &disk.cache(), "8M").unwrap();
    for (life, has_dirty, is_detached) in [(1, true, false), (2, false, false), (3, true, true), (4, false, true)] {
        // Leaves the blocks in the cache, clean.
        let host = attach(&disk);
        assert!(pieces.write(&mut host.connect(), 10 * life));
        host.process.end().unwrap();
        let host = attach(&disk);
        pieces.check(&mut host.connect());
        host.process.end().unwrap();
        run("sync", ["-f", &disk.cache()]).unwrap();
        let host = attach(&disk);
        let mut client = host.connect();
        site.wait_for_holders(1);
        pieces.check(&mut client);
        if has_dirty {
            assert!(pieces.write(&mut client, 10 * life + 1));
        }
        disk.fail();
        for version in 2..=4 {
            assert!(pieces.write(&mut client, 10 * life + version));
        }
        pieces.check(&mut client);
        if is_detached {
            let Ended { stderr: errors, stdout: said, .. } = host.process.end().unwrap();
            assert!(errors.contains("the volume continues without it") && said.contains("detached"), "{said}");
        } else {
            drop(host.process);
        }
        disk.work();
        let host = attach(&disk);
        pieces.check(&mut host.connect());
        host.process.end().unwrap();
    }
}
