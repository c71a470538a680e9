//! A store that is stopped, and answers nothing: the first Ctrl-C ends whatever waits for it.

use crate::homes;
use crate::program::{program, ran, spawn, thorp};
use crate::stored_volumes::Site;
use fixtures::{Process, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A command has ended by then, although home is waited for for a minute.
const SOON: Duration = Duration::from_secs(8);

/// Stops the store, until it is dropped.
struct Stopped<'a>(&'a Process);

impl<'a> Stopped<'a> {
    fn stop(site: &'a Site) -> Self {
        site.store.signal(Signal::STOP).unwrap();
        Self(&site.store)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT).unwrap();
    }
}

/// Waits until the process has said what it does when it is interrupted.
fn wait_until_it_listens(process: &Process) {
    until("it catches SIGINT", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let caught = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
        caught.unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
    });
}

/// Interrupts it once, and waits for its end.
fn interrupt(process: Process) -> String {
    let begun = Instant::now();
    let ended = process.end_by(Signal::INT).unwrap();
    assert!(begun.elapsed() < SOON, "it has waited for {:?}: {ended:?}", begun.elapsed());
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended.stderr
}

#[test]
fn ctrl_c_ends_what_waits_for_a_store_that_is_stopped() {
    let site = Site::new(0);
    site.create_with("1", "8M");
    let (store, image) = (site.address(), site.folder.file("image"));
    std::fs::write(&image, [7; 8192]).unwrap();
    let _stopped = Stopped::stop(&site);
    let out = site.folder.file("out");
    let commands: [&[&str]; 7] = [
        &["create", "w", "--size", "8M"],
        &["import", &image, "w"],
        &["export", "v", &out],
        &["snapshot", "v", "w"],
        &["resize", "v", "--size", "16M"],
        &["detach", "v"],
        &["remove", "v"],
    ];
    for words in commands {
        let process = spawn(&[&["volume"], words, &["--store", &store]].concat());
        wait_until_it_listens(&process);
        let said = interrupt(process);
        assert!(said.contains("interrupted"), "{words:?}: {said}");
    }
    assert!(!std::path::Path::new(&out).exists());
}

/// It is at home when the store stops. That continues with what it was told, so it is said how to find that; it may
/// have been told to remove it.
#[test]
fn ctrl_c_ends_an_import_whose_home_is_stopped() {
    let site = Site::new(0);
    let mut child = homes::import(&site, "w");
    let home = homes::wait_for_home(&site);
    let stopped = Stopped::stop(&site);
    // More than it reads ahead: it waits for home.
    let mut stdin = child.take_stdin().unwrap();
    let feeding = thread::spawn(move || {
        // The import ends before all of it has come.
        let _ = stdin.write_all(&vec![8; 64 << 20]);
    });
    let said = interrupt(child);
    feeding.join().unwrap();
    assert!(said.contains(&format!("thorp volume remove --home {home}")), "{said}");
    drop(stopped);
    until("home notices that the import is gone", || {
        thorp(["volume", "remove", "--home", &home, "--force", "--store", &site.address()]);
        homes::homes(&site).is_empty()
    });
}

#[test]
fn ctrl_c_ends_an_export_whose_home_is_stopped() {
    let site = Site::new(0);
    let (store, image) = (site.address(), site.folder.file("image"));
    std::fs::write(&image, vec![7; 64 << 20]).unwrap();
    thorp(["volume", "import", &image, "w", "--store", &store]).ok();
    let mut child = program().command().args(["volume", "export", "w", "-", "--store", &store]).spawn().unwrap();
    // Its pipe is full from here on.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let _stopped = Stopped::stop(&site);
    let come = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(len @ 1..) = stdout.read(&mut buffer) {
                come.fetch_add(len as u64, SeqCst);
            }
        });
        // When nothing comes any more it waits for home.
        let mut before = u64::MAX;
        while before != come.load(SeqCst) {
            before = come.load(SeqCst);
            thread::sleep(Duration::from_millis(500));
        }
        assert!(before < 64 << 20, "all of it has come");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let begun = Instant::now();
        let said = ran(child.wait_with_output().unwrap());
        assert!(begun.elapsed() < SOON, "it has waited for {:?}: {said:?}", begun.elapsed());
        assert!(said.code == Some(1) && said.stderr.contains("interrupted: nothing was exported"), "{said:?}");
    });
}
