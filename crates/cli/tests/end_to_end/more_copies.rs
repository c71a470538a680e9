//! A block that is written often has more copies when its write is answered.

use crate::program::try_start;
use crate::stored_volumes::{Host, Site};
use crate::volumes::BLOCK;
use fixtures::nbd_client::Command;
use rustix::process::Signal;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The owner takes a holder for lost that is silent for half a second, and waits for it no more.
const BEFORE_IT_IS_LOST: Duration = Duration::from_millis(400);

const LONG: Duration = Duration::from_secs(60);

/// Writes a block from another thread, and tells when that is answered.
fn write(host: &Host, block: u64) -> Receiver<()> {
    let (tell, told) = channel();
    let mut client = host.connect();
    thread::spawn(move || {
        let data = [7; BLOCK];
        let written = client.call(&Command::Write { offset: block * BLOCK as u64, data: &data, fua: false }).unwrap();
        assert_eq!(written.error, 0);
        // A test that has failed does not want to know.
        let _ = tell.send(());
    });
    told
}

#[test]
fn a_block_that_is_written_often_waits_for_another_copy() {
    let site = Site::new(2);
    site.create_with("2", "8M");
    let (cache, socket) = (site.folder.file("cache"), site.folder.path().join("nbd"));
    let (listen, address) = (format!("unix:{}", socket.display()), site.address());
    let words = ["volume", "attach", "v", "--store", &address, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
    let words = [&words[..], &["--ack", "write", "--age-s", "60", "--spare", "1", "--more-copies-after", "2"]].concat();
    let host = Host { process: try_start(&words).unwrap(), socket };
    site.wait_for_holders(2);
    // Both of them are up when what is written often was answered.
    for _ in 0..3 {
        write(&host, 1).recv_timeout(LONG).unwrap();
    }
    let second = &site.holders[1];
    second.signal(Signal::STOP).unwrap();
    let often = write(&host, 1);
    assert!(often.recv_timeout(BEFORE_IT_IS_LOST).is_err(), "it has not waited for the second holder");
    second.signal(Signal::CONT).unwrap();
    often.recv_timeout(LONG).unwrap();
    second.signal(Signal::STOP).unwrap();
    // Its owner and the first holder are enough.
    write(&host, 2).recv_timeout(BEFORE_IT_IS_LOST).unwrap();
    // One that does not come back is waited for until it is lost.
    write(&host, 1).recv_timeout(LONG).unwrap();
    second.signal(Signal::CONT).unwrap();
    host.process.end().unwrap();
}
