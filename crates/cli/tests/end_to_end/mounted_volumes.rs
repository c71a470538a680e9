//! ext4 on a volume, on this machine, while programs of others do what they can to it and its owner is killed.

use crate::program::{Folder, thorp, tool};
use crate::volumes::Attached;
use fixtures::installed::run;
use fixtures::mounts::{Fuse, Mounted, can_mount};
use fixtures::{Process, until};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// The operations of a file, and how often each comes.
pub(crate) const FSX: &str = "
flen = 1048576
[opsize]
max = 65536
[weights]
read = 10.0
write = 10.0
mapread = 5.0
mapwrite = 5.0
truncate = 5.0
fsync = 3.0
fdatasync = 3.0
invalidate = 5.0
punch_hole = 3.0
posix_fallocate = 1.0
sendfile = 1.0
copy_file_range = 1.0
close_open = 1.0
";

/// Those of a device, whose size stays.
const FSX_OF_DEVICE: &str = "
blockmode = true
nosizechecks = true
[opsize]
max = 65536
align = 512
[weights]
read = 10.0
write = 10.0
mapread = 5.0
mapwrite = 5.0
fsync = 1.0
punch_hole = 3.0
truncate = 0.0
close_open = 0.0
posix_fallocate = 0.0
";

/// Starts the exerciser of file systems, with a seed, for this many operations or until it is ended.
pub(crate) fn fsx(
    program: &Path,
    folder: &Folder,
    config: &str,
    file: &str,
    seed: u32,
    operations: Option<u32>,
) -> Process {
    let config = folder.write(&format!("fsx-{seed}.toml"), config);
    let mut fsx = Command::new(program);
    fsx.args(["-q", "-f", &config, "-S", &seed.to_string(), "-P", folder.path().to_str().unwrap()]);
    if let Some(operations) = operations {
        fsx.args(["-N", &operations.to_string()]);
    }
    fsx.arg(file);
    Process::spawn(fsx, "fsx").unwrap()
}

/// Waits for its end, which has to be a good one.
#[track_caller]
pub(crate) fn is_right(fsx: Process) {
    let ran = fsx.ended().unwrap();
    let said = ran.stdout + &ran.stderr;
    assert!(ran.status.success(), "fsx: {said}");
}

/// Trims what is free, again and again, until it is told to end.
fn trim_until(ended: &AtomicBool, path: &Path) {
    while !ended.load(SeqCst) {
        run("fstrim", [path.to_str().unwrap()]).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
}

/// Content of a file of this number; each has another length.
fn text(number: usize) -> String {
    format!("file {number}\n").repeat(200 + 37 * number % 3000)
}

/// Writes files and syncs each, until one cannot be; gives the numbers of those that were.
fn sync_until_gone(path: &Path, first: usize) -> Vec<usize> {
    let put = |number: usize| -> std::io::Result<()> {
        let mut file = File::create(path.join(number.to_string()))?;
        file.write_all(text(number).as_bytes())?;
        file.sync_all()
    };
    (first..1_000_000).take_while(|&number| put(number).is_ok()).collect()
}

/// fsx finds nothing on a device, and on a file system that is trimmed in the meantime. Then the owner is killed while
/// fsx and a writer that syncs are at work; everything that was synced is there, and the file system is whole, in each
/// life.
#[test]
fn fsx_and_fstrim_find_nothing_and_kills_lose_nothing() {
    let Some(exerciser) = tool("bin/fsx").filter(|_| can_mount()) else { return };
    let folder = Folder::new();
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "48M"]).ok();
    let operations = std::env::var("FSX").map_or(600, |count| count.parse().unwrap());

    let attached = Attached::new(&folder, &["--age-s", "1"]);
    let mut disk = Fuse::new(&folder.path().join("fuse"), &attached.socket).unwrap();
    is_right(fsx(&exerciser, &folder, FSX_OF_DEVICE, &disk.file, 1, Some(operations)));
    run("mkfs.ext4", ["-q", "-F", &disk.file]).unwrap();
    disk.end();
    attached.detach();

    let mut synced = Vec::new();
    for life in 1..=2 {
        let attached = Attached::new(&folder, &["--age-s", "1"]);
        let mut disk = Fuse::new(&folder.path().join("fuse"), &attached.socket).unwrap();
        let mut mounted = Mounted::new(folder.path().join("mounted"), &disk.file).unwrap();
        check(&mounted.path, &synced);
        let file = mounted.path.join("fsx").to_str().unwrap().to_owned();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let trimmer = scope.spawn(|| trim_until(&ended, &mounted.path));
            is_right(fsx(&exerciser, &folder, FSX, &file, 10 + life, Some(operations)));
            ended.store(true, SeqCst);
            trimmer.join().unwrap();
            let exerciser = fsx(&exerciser, &folder, FSX, &file, 20 + life, None);
            let first = synced.last().map_or(1, |last| last + 2);
            let writer = {
                let path = &mounted.path;
                scope.spawn(move || sync_until_gone(path, first))
            };
            until("some files are written", || mounted.path.join((first + 30).to_string()).exists());
            attached.kill();
            synced.extend(writer.join().unwrap());
            drop(exerciser);
        });
        mounted.end();
        disk.end();
    }

    let attached = Attached::new(&folder, &[]);
    let mut disk = Fuse::new(&folder.path().join("fuse"), &attached.socket).unwrap();
    let mut mounted = Mounted::new(folder.path().join("mounted"), &disk.file).unwrap();
    check(&mounted.path, &synced);
    run("umount", [mounted.path.to_str().unwrap()]).unwrap();
    mounted.end();
    disk.end();
    attached.detach();
    run("e2fsck", ["-fn", &home]).unwrap();
    eprintln!("{} files were synced", synced.len());
}

fn check(path: &Path, synced: &[usize]) {
    for &number in synced {
        let found = std::fs::read_to_string(path.join(number.to_string()));
        assert!(found.is_ok_and(|found| found == text(number)), "file {number}");
    }
}
