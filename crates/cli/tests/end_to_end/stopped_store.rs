//! A store that is stopped, and answers nothing: the first Ctrl-C ends whatever waits for it.

use crate::homes;
use crate::program::{command, thorp};
use crate::stored_volumes::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// A command has ended by then, although home is waited for for a minute.
const SOON: Duration = Duration::from_secs(8);

/// Stops the store, until it is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(site: &Site) -> Self {
        let pid = Pid::from_raw(site.store.pid().cast_signed()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

fn start(words: &[&str]) -> Child {
    let mut child = command();
    child.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().unwrap()
}

/// Waits until the process has said what it does when it is interrupted.
fn wait_until_it_listens(child: &Child) {
    let begun = Instant::now();
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
        if caught.unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1 {
            return;
        }
        assert!(begun.elapsed() < LONG, "{status}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Interrupts it once, and waits for its end.
fn interrupt(mut child: Child) -> Output {
    let stdin = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert!(begun.elapsed() < SOON, "it has waited for {:?}: {output:?}", begun.elapsed());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
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
        let child = start(&[&["volume"], words, &["--store", &store]].concat());
        wait_until_it_listens(&child);
        let output = interrupt(child);
        assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{words:?}: {output:?}");
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
    let mut stdin = child.stdin.take().unwrap();
    let feeding = thread::spawn(move || {
        // The import ends before all of it has come.
        let _ = stdin.write_all(&vec![8; 64 << 20]);
    });
    let said = interrupt(child);
    feeding.join().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains(&format!("thorp volume remove --home {home}")), "{said}");
    drop(stopped);
    let begun = Instant::now();
    loop {
        let removed = thorp(["volume", "remove", "--home", &home, "--force", "--store", &site.address()]);
        if homes::homes(&site).is_empty() {
            break;
        }
        assert!(begun.elapsed() < LONG, "home has not noticed that the import is gone: {}", removed.stderr);
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_c_ends_an_export_whose_home_is_stopped() {
    let site = Site::new(0);
    let (store, image) = (site.address(), site.folder.file("image"));
    std::fs::write(&image, vec![7; 64 << 20]).unwrap();
    thorp(["volume", "import", &image, "w", "--store", &store]).ok();
    let mut child = start(&["volume", "export", "w", "-", "--store", &store]);
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
        let said = interrupt(child);
        assert!(String::from_utf8_lossy(&said.stderr).contains("interrupted: nothing was exported"), "{said:?}");
    });
}
