//! Volumes as the disks of a virtual machine, without KVM: Debian's kernel, with its own NBD client over TCP, and with
//! a disk that qemu's NBD client serves. In the guest ext4 is mounted on each, and files are written and synced.

use crate::program::{Folder, thorp, tool};
use crate::volumes::Attached;
use fixtures::Process;
use fixtures::installed::{has, run};
use fixtures::mounts::{can_mount, check_ext4, copy_files};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than a kernel takes to boot on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(120);

/// The modules, in the order in which they need each other.
const MODULES: [&str; 10] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "nbd",
];

/// The guest's first process: at each disk it writes files and syncs each, and says so. That syncs the removal
/// of another one, too.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc none /proc
busybox --install -s /bin
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in MODULES; do insmod /lib/$module.ko; done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
nbd-client 10.0.2.2 PORT /dev/nbd0 -timeout 20 >/dev/null 2>&1
work() {
    mkdir -p /$1
    mount -t ext4 /dev/$1 /$1 || return
    n=0
    while true; do
        n=$((n + 1))
        [ $((n % 5)) = 0 ] && rm /$1/$((n - 3))
        yes "$1 $n" | head -n $((n * 37 % 3000 + 1)) | dd of=/$1/$n conv=fsync 2>/dev/null || break
        echo "synced $1 $n"
        [ $((n % 5)) = 0 ] && echo "removed $1 $((n - 3))"
    done
    echo "over $1"
}
work vda &
work nbd0 &
wait
echo "all is over"
sleep 1000
"#;

/// The content of a file that the guest writes.
fn text(disk: &str, number: usize) -> String {
    format!("{disk} {number}\n").repeat(number * 37 % 3000 + 1)
}

/// An archive for the guest's first file system, as the kernel unpacks it.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        let zero = 0;
        let (size, name_bytes) = (content.len(), name.len() + 1);
        let number = self.0.len();
        let fields = [number, mode as usize, zero, zero, 1, zero, size, zero, zero, zero, zero, name_bytes, zero];
        self.0.extend_from_slice(b"070701");
        for field in fields {
            self.0.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.pad();
        self.0.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn folders(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.add(&path[..at], 0o040_755, &[]);
        }
    }

    /// A program of this machine, and the libraries that it is linked with.
    fn program(&mut self, path: &str) {
        let linked = Command::new("ldd").arg(path).output().unwrap();
        let linked = String::from_utf8(linked.stdout).unwrap();
        let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries {
            self.folders(&library[1..]);
            self.add(&library[1..], 0o100_755, &std::fs::read(library).unwrap());
        }
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        self.add(&format!("bin/{name}"), 0o100_755, &std::fs::read(path).unwrap());
    }

    fn of_guest(kernel: &Path, port: u16) -> Vec<u8> {
        let mut archive = Self::default();
        for folder in ["bin", "lib", "proc", "sys", "dev"] {
            archive.add(folder, 0o040_755, &[]);
        }
        let init = INIT.replace("MODULES", &MODULES.join(" ")).replace("PORT", &port.to_string());
        archive.add("init", 0o100_755, init.as_bytes());
        archive.program("/bin/busybox");
        archive.program("/usr/sbin/nbd-client");
        for module in MODULES {
            let file = format!("{module}.ko");
            archive.add(&format!("lib/{file}"), 0o100_644, &std::fs::read(kernel.join(&file)).unwrap());
        }
        archive.add("TRAILER!!!", 0, &[]);
        archive.0
    }
}

/// A virtual machine that runs.
struct Guest {
    process: Process,
    /// Everything that it has said, for when something is wrong.
    said: Vec<String>,
    /// The files that are synced, by disk; those that are removed again, durably, are not there.
    files: HashMap<String, HashMap<usize, bool>>,
}

impl Guest {
    /// Starts it. `disk` is the socket of its disk, and `port` that of the volume that its own kernel is a client of.
    fn start(folder: &Folder, kernel: &Path, disk: &Path, port: u16) -> Self {
        let archive = folder.write("initramfs", Archive::of_guest(kernel, port));
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-m", "192", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
        qemu.arg("-kernel").arg(kernel.join("vmlinuz")).args(["-initrd", &archive]);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1", "-nic", "user,model=virtio-net-pci"]);
        let server = format!("server.type=unix,server.path={}", disk.display());
        qemu.args(["-blockdev", &format!("driver=nbd,node-name=disk,{server},reconnect-delay=60")]);
        qemu.args(["-device", "virtio-blk-pci,drive=disk"]);
        qemu.stdin(Stdio::null());
        let process = Process::spawn(qemu, "the guest").unwrap();
        Self { process, said: Vec::new(), files: HashMap::new() }
    }

    /// Hears what it says until it is so.
    fn hear_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            self.hear_next(Duration::from_millis(100));
            let goes_on = begun.elapsed() < LONG && !self.has_said("all is over") && !self.process.stdout().is_over();
            assert!(goes_on, "{what} is not to be had any more: {:#?}", self.said);
        }
    }

    /// Hears the next line, if one comes in time.
    fn hear_next(&mut self, within: Duration) -> bool {
        let line = self.process.stdout().next_within(within);
        line.map(|line| self.hear(line.trim().to_owned())).is_some()
    }

    fn hear(&mut self, line: String) {
        // Two processes of the guest share a line's end now and then, and the kernel begins with an escape.
        let words: Vec<_> = line.split_whitespace().collect();
        if let [.., verb @ ("synced" | "removed"), disk, number] = words[..]
            && let Ok(number) = number.parse()
        {
            self.files.entry(disk.to_owned()).or_default().insert(number, verb == "synced");
        }
        self.said.push(line);
    }

    /// How many files it has synced at a disk.
    fn count(&self, disk: &str) -> usize {
        self.files.get(disk).map_or(0, HashMap::len)
    }

    fn has_said(&self, words: &str) -> bool {
        self.said.iter().any(|line| line.contains(words))
    }

    /// Ends as if its plug were pulled; gives what it was promised.
    fn kill(mut self) -> HashMap<String, HashMap<usize, bool>> {
        self.process.kill().unwrap();
        // Everything that it has said before counts.
        while self.hear_next(LONG) {}
        self.files
    }
}

/// A volume with an empty ext4, for everything that a guest writes until its kernel's client has noticed that its
/// server is gone: now and then only when a request is not answered in time.
fn volume() -> Folder {
    let folder = Folder::new();
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "128M"]).ok();
    run("mkfs.ext4", ["-q", "-F", &home]).unwrap();
    folder
}

/// The owner of the disk that qemu serves is killed and started again, and the guest notices nothing: with `--ack
/// write` everything that was answered is in the log. That of the kernel's client is killed; then the guest is. In both
/// volumes is a whole file system, with everything that was synced.
#[test]
fn a_guest_keeps_what_it_has_synced() {
    let programs = ["qemu-system-x86_64", "busybox"].into_iter().all(has);
    let Some(kernel) = tool("kernel/nbd.ko").filter(|_| programs && can_mount()) else { return };
    let kernel = kernel.parent().unwrap();
    let (own, qemus) = (volume(), volume());
    let of_kernel = Attached::new(&own, &["--age-s", "1", "--listen", "nbd://127.0.0.1:0"]);
    let options = ["--age-s", "1", "--ack", "write"];
    let mut of_qemu = Attached::new(&qemus, &options);
    let mut guest = Guest::start(&own, kernel, &of_qemu.socket, of_kernel.port());
    let begun = Instant::now();
    guest.hear_until("files are written at both disks", |it| it.count("vda") > 10 && it.count("nbd0") > 10);
    eprintln!("{:.1} s until files are written", begun.elapsed().as_secs_f64());
    for _ in 0..2 {
        of_qemu.kill();
        of_qemu = Attached::new(&qemus, &options);
        let count = guest.count("vda");
        guest.hear_until("the guest goes on", |it| it.count("vda") > count + 10);
    }
    of_kernel.kill();
    guest.hear_until("the kernel's client has lost its server", |it| it.has_said("over nbd0"));
    assert!(!guest.has_said("over vda"), "{:#?}", guest.said);
    of_qemu.kill();
    let files = guest.kill();
    for (disk, folder) in [("nbd0", own), ("vda", qemus)] {
        Attached::new(&folder, &[]).detach();
        let (home, out) = (folder.file("disk"), folder.path().join("out"));
        check_ext4(&home).unwrap_or_else(|why| panic!("{disk}: {why}"));
        copy_files(&home, &out).unwrap();
        for (number, is_there) in &files[disk] {
            let found = std::fs::read_to_string(out.join(number.to_string())).ok();
            // One that is removed after what was heard last may be gone.
            let may_be_gone = number % 5 == 2 && *is_there;
            let is_right =
                found.as_ref().map_or(!is_there || may_be_gone, |it| *is_there && *it == text(disk, *number));
            assert!(is_right, "file {number} at {disk}: {is_there}, {found:?}");
        }
        eprintln!("{disk}: {} files", files[disk].len());
    }
}
