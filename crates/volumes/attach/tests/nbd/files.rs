//! The device that is a file.

use crate::rig::{Folder, Random, Rig, ask};
use fixtures::FileDevice;
use fixtures::nbd_client::{Client, Command};
use nbd::numbers::{flag, transmission};
use std::fs::File;
use std::sync::Arc;

fn file(folder: &Folder, size: u64) -> std::path::PathBuf {
    let path = folder.path("disk");
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

#[test]
fn a_file_is_what_was_written() {
    let folder = Folder::new();
    let path = file(&folder, (1 << 20) + 100);
    let rig = Rig::new(Arc::new(FileDevice::open(&path, false).unwrap()));
    let mut client = rig.connect();
    let mut expected = vec![0; (1 << 20) + 100];
    let mut random = Random(2);
    for round in 0..200 {
        let offset = random.below(expected.len() as u64 - 1);
        let len = (1 + random.below(30_000)).min(expected.len() as u64 - offset) as usize;
        let place = offset as usize..offset as usize + len;
        let (len, fua) = (len as u32, random.below(4) == 0);
        match random.below(5) {
            0 => {
                let flags = [0, flag::NO_HOLE, flag::FUA][round % 3];
                ask(&mut client, &Command::Zero { offset, len, flags });
                expected[place].fill(0);
            }
            1 => {
                ask(&mut client, &Command::Trim { offset, len, fua });
                expected[place].fill(0);
            }
            2 => assert!(ask(&mut client, &Command::Read { offset, len, whole: fua }).data == expected[place]),
            _ => {
                let data = random.bytes(len as usize);
                ask(&mut client, &Command::Write { offset, data: &data, fua });
                expected[place].copy_from_slice(&data);
            }
        }
    }
    ask(&mut client, &Command::Cache { offset: 0, len: 4096 });
    ask(&mut client, &Command::Flush);
    assert!(std::fs::read(&path).unwrap() == expected);
}

/// Many connections with many requests each: whoever leads a sync answers for all, and nothing is lost.
#[test]
fn syncs_are_shared() {
    let folder = Folder::new();
    let path = file(&folder, 4 << 20);
    let rig = Rig::new(Arc::new(FileDevice::open(&path, false).unwrap()));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let mut client = rig.connect();
            scope.spawn(move || {
                for round in 0..8_u8 {
                    for block in 0..16 {
                        let offset = (thread * 16 + block) << 12;
                        client.add(&Command::Write { offset, data: &[round + 1; 4096], fua: block % 2 == 0 });
                    }
                    client.add(&Command::Flush);
                    client.flush().unwrap();
                    while client.under_way() > 0 {
                        assert_eq!(client.receive().unwrap().error, 0);
                    }
                }
                client.disconnect().unwrap();
            });
        }
    });
    assert!(std::fs::read(&path).unwrap()[..64 << 12].iter().all(|byte| *byte == 8));
}

#[test]
fn extents_are_those_of_the_file() {
    let folder = Folder::new();
    let path = file(&folder, 1 << 20);
    let rig = Rig::new(Arc::new(FileDevice::open(&path, false).unwrap()));
    let mut client = rig.connect();
    ask(&mut client, &Command::Write { offset: 1 << 18, data: &vec![9; 1 << 16], fua: true });
    let extents = ask(&mut client, &Command::Extents { offset: 0, len: 1 << 20, one: false }).extents;
    assert_eq!(extents, [(1 << 18, 3), (1 << 16, 0), ((1 << 20) - (1 << 18) - (1 << 16), 3)]);
    let within = Command::Extents { offset: (1 << 18) + 512, len: 512, one: true };
    assert_eq!(ask(&mut client, &within).extents, [(512, 0)]);
}

#[test]
fn a_file_is_served_once_or_only_read() {
    let folder = Folder::new();
    let path = file(&folder, 1 << 20);
    let first = FileDevice::open(&path, false).unwrap();
    let refused = FileDevice::open(&path, true).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("another process serves it"));
    drop(first);
    let rig = Rig::new(Arc::new(FileDevice::open(&path, true).unwrap()));
    assert!(FileDevice::open(&path, true).is_ok());
    let mut client = rig.connect();
    assert!(client.has(transmission::READ_ONLY));
    assert_eq!(client.call(&Command::Write { offset: 0, data: b"x", fua: false }).unwrap().error, 1);
    ask(&mut client, &Command::Read { offset: 0, len: 10, whole: false });
    assert!(Client::connect(&rig.address, "other").is_err());
}
