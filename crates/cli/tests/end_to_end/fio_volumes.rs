//! fio writes to a volume of a store while its owner, a holder and its home are killed, in turn and together, and finds
//! what it has written. Where the owner dies fio's own account of what was answered is kept; the owner's cache is gone
//! each time.

use crate::stored_volumes::{Host, Site};
use fixtures::installed::has;
use fixtures::{Ended, Process};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A job on the volume of a host, whose writes are the same each time by their seed.
fn fio(site: &Site, host: &Host, seed: u32, more: &[&str]) -> Process {
    let mut fio = Command::new("fio");
    let uri = format!("--uri=nbd+unix:///?socket={}", host.socket.display());
    fio.args(["--name=volume", "--ioengine=nbd", &uri, "--bs=4k", "--iodepth=16", "--size=16m"]);
    fio.args(["--verify=crc32c", "--verify_fatal=1", &format!("--randseed={seed}")]).args(more);
    fio.current_dir(site.folder.path());
    Process::spawn(fio, "fio").unwrap()
}

/// Waits for its end, which has to be a good one; gives the number of its requests, as it says.
#[track_caller]
fn is_right(fio: Process) -> String {
    let ran = fio.ended().unwrap();
    let said = ran.stdout + &ran.stderr;
    assert!(ran.status.success() && said.contains("err= 0"), "{said}");
    said.lines().find(|line| line.contains("issued rwts")).unwrap_or_default().trim().to_owned()
}

/// Writes everything and verifies it, while something is killed and started again.
fn write_through(site: &mut Site, host: &Host, seed: u32, kill: impl FnOnce(&mut Site)) {
    let fio = fio(site, host, seed, &["--rw=randwrite", "--do_verify=1", "--rate_iops=2000", "--verify_state_save=0"]);
    thread::sleep(Duration::from_millis(500));
    kill(site);
    let said = is_right(fio);
    eprintln!("through: {said}");
}

/// Writes until fio, which keeps account of what was answered, kills the owner and some others.
fn write_until_killed(site: &mut Site, host: Host, seed: u32, others: &[u32]) {
    let pids = others.iter().copied().chain([host.process.id()]).map(|pid| format!(" {pid}"));
    let kill = format!("--trigger=kill -9{}", pids.collect::<String>());
    let state = site.folder.file("local-volume-0-verify.state");
    let _ = std::fs::remove_file(&state);
    let write = ["--rw=randwrite", "--do_verify=0", "--rate_iops=2000", "--verify_state_save=1"];
    let fio = fio(site, &host, seed, &[&write[..], &["--trigger-timeout=1", &kill]].concat());
    fio.ended().unwrap();
    assert!(Path::new(&state).is_file(), "fio has kept no account");
    drop(host.process);
}

/// Everything that was answered before is there.
#[track_caller]
fn verify(site: &Site, host: &Host, seed: u32) {
    let said = is_right(fio(site, host, seed, &["--rw=randread", "--verify_state_load=1"]));
    let read = said.split_once("total=").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    assert!(read.is_some_and(|read: u32| read > 100), "hardly anything is verified: {said}");
    eprintln!("verified: {said}");
}

#[test]
fn fio_finds_what_it_wrote_whoever_is_killed() {
    if !has("fio") {
        return;
    }
    let mut site = Site::new(1);
    site.create_with("2", "16M");
    let options = ["--ack", "write", "--age-s", "1"];
    let host = site.attach("host-1", &options).unwrap();
    site.wait_for_holders(1);
    write_through(&mut site, &host, 1, |site| {
        drop(site.holders.remove(0));
        let again = site.holder(0);
        site.holders.push(again);
    });
    write_through(&mut site, &host, 2, |site| {
        site.restart_store();
    });

    site.wait_for_holders(1);
    write_until_killed(&mut site, host, 3, &[]);
    std::fs::remove_dir_all(site.folder.file("host-1")).unwrap();
    let host = site.attach("host-2", &options).unwrap();
    verify(&site, &host, 3);

    site.wait_for_holders(1);
    let everybody: Vec<_> = site.holders.iter().map(Process::id).chain([site.store.id()]).collect();
    write_until_killed(&mut site, host, 4, &everybody);
    std::fs::remove_dir_all(site.folder.file("host-2")).unwrap();
    site.restart_store();
    for holder in site.holders.drain(..) {
        drop(holder);
    }
    site.holders = vec![site.holder(0)];
    let host = site.attach("host-3", &options).unwrap();
    verify(&site, &host, 4);
    let Ended { stderr: errors, stdout: said, .. } = host.process.end().unwrap();
    assert!(said.contains("detached"), "{errors}{said}");
}
