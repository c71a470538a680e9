//! A home that is not as it was left: restored from a copy, or gone back, while its volume is detached and while it is
//! attached.

use crate::attached::{MIB, end};
use crate::far::{Homes, VOLUME, attach, config, raw};
use crate::rig::{Folder, Rig, ask};
use attach::{AttachError, Attached, FarError, FarHome, FarHomes};
use fixtures::nbd_client::{Client, Command};
use net::Runtime;
use std::path::Path;
use std::time::Duration;

const LEN: u32 = 64 * 4096;

fn write(client: &mut Client, byte: u8) {
    ask(client, &Command::Write { offset: 0, data: &vec![byte; LEN as usize], fua: false });
    ask(client, &Command::Flush);
}

fn read(client: &mut Client) -> u8 {
    let read = ask(client, &Command::Read { offset: 0, len: LEN, whole: true });
    assert!(read.data.iter().all(|byte| *byte == read.data[0]), "of two states");
    read.data[0]
}

/// Copies the files of homes.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Everything through here is home, and among the clean blocks.
fn write_home(folder: &Folder, homes: &Homes, runtime: &Runtime, byte: u8) {
    let attached = attach(FarHome::connect(&homes.address, VOLUME, runtime).unwrap(), &config(folder, "cache"));
    let rig = Rig::new(attached.clone());
    write(&mut rig.connect(), byte);
    end(rig, &attached);
    attached.detach().unwrap();
    drop(attached);
    // Nobody has the volume open any more when its home could be removed, but for its age.
    let probe = || FarHomes::connect(&homes.address, runtime).unwrap().remove(VOLUME, Duration::from_secs(3600));
    while !matches!(probe(), Err(FarError::Recent(_))) {
        std::thread::yield_now();
    }
}

#[test]
fn clean_blocks_are_dropped_when_homes_file_was_restored_from_a_copy() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    drop(FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap());
    write_home(&folder, &homes, &runtime, 1);
    std::fs::copy(raw(&dir, VOLUME), folder.path("copy")).unwrap();
    write_home(&folder, &homes, &runtime, 2);
    std::fs::copy(folder.path("copy"), raw(&dir, VOLUME)).unwrap();

    let attached = attach(FarHome::connect(&homes.address, VOLUME, &runtime).unwrap(), &config(&folder, "cache"));
    assert_eq!(attached.status().clean_blocks.0, 0);
    let rig = Rig::new(attached.clone());
    assert_eq!(read(&mut rig.connect()), 1);
    end(rig, &attached);
    attached.detach().unwrap();
    // One that nobody touched keeps them.
    let attached = attach(FarHome::connect(&homes.address, VOLUME, &runtime).unwrap(), &config(&folder, "cache"));
    assert_eq!(attached.status().clean_blocks.0, 64);
}

#[test]
fn an_older_home_is_refused_until_that_is_forced() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let homes = Homes::start(&dir);
    drop(FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap());
    write_home(&folder, &homes, &runtime, 1);
    copy(&dir, &folder.path("copy"));
    write_home(&folder, &homes, &runtime, 2);
    drop(homes);
    copy(&folder.path("copy"), &dir);

    let homes = Homes::start(&dir);
    let connect = || FarHome::connect(&homes.address, VOLUME, &runtime).unwrap();
    let refused = Attached::attach_far(connect(), &config(&folder, "cache")).unwrap_err();
    assert!(matches!(refused, AttachError::HomeWentBack(_)), "{refused}");
    assert!(refused.to_string().contains("--force"), "{refused}");
    let forced = attach::AttachConfig { is_forced: true, ..config(&folder, "cache") };
    let attached = attach(connect(), &forced);
    let rig = Rig::new(attached.clone());
    assert_eq!(read(&mut rig.connect()), 1);
    end(rig, &attached);
    attached.detach().unwrap();
}

#[test]
fn an_owner_ends_when_its_home_went_back() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let dir = folder.path("homes");
    let mut homes = Homes::start(&dir);
    let home = FarHome::create(&homes.address, VOLUME, 4 * MIB, &runtime).unwrap();
    let attached = attach(home, &config(&folder, "cache"));
    let rig = Rig::new(attached.clone());
    let mut client = rig.connect();
    write(&mut client, 1);
    attached.bring_home(&|| false).unwrap();
    copy(&dir, &folder.path("copy"));
    write(&mut client, 2);
    attached.bring_home(&|| false).unwrap();
    homes.stop();
    copy(&folder.path("copy"), &dir);
    homes.restart(&dir);

    // It was never read, so home is asked for it.
    let read = client.call(&Command::Read { offset: 2 * MIB, len: LEN, whole: true }).unwrap();
    assert_ne!(read.error, 0, "home is one of before");
    let why = attached.status().failed.expect("nothing goes on");
    assert!(why.contains("not as it was left") && why.contains("--force"), "{why}");
    let write = client.call(&Command::Write { offset: 0, data: &[3; 4096], fua: true }).unwrap();
    assert_ne!(write.error, 0, "nothing is written over it");
    let left = std::fs::read(raw(&dir, VOLUME)).unwrap();
    assert!(left[..LEN as usize].iter().all(|byte| *byte == 1), "home is as it was restored");
}

/// How an older file comes to are in the place of a newer one.
fn put_back(from: &Path, to: &Path, is_in_place: bool) {
    if is_in_place {
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
    } else {
        std::fs::rename(from, to).unwrap();
    }
}

/// The first region of checksums has been written a moment ago, and a block of it is the last one that was: a start
/// after a crash of the machine would trust none of these.
#[test]
fn a_killed_home_refuses_the_blocks_of_an_older_file_in_its_place() {
    for is_in_place in [true, false] {
        let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
        let dir = folder.path("homes");
        let mut homes = Homes::start(&dir);
        let home = FarHome::create(&homes.address, VOLUME, 16 * MIB, &runtime).unwrap();
        let attached = attach(home, &config(&folder, "cache"));
        let rig = Rig::new(attached.clone());
        let mut client = rig.connect();
        ask(&mut client, &Command::Write { offset: 8 * MIB, data: &[1; 4096], fua: false });
        write(&mut client, 1);
        attached.bring_home(&|| false).unwrap();
        std::fs::copy(raw(&dir, VOLUME), folder.path("old")).unwrap();
        ask(&mut client, &Command::Write { offset: 7 * 4096, data: &[2; 4096], fua: false });
        ask(&mut client, &Command::Flush);
        attached.bring_home(&|| false).unwrap();
        homes.stop();
        put_back(&folder.path("old"), &raw(&dir, VOLUME), is_in_place);
        homes.restart(&dir);

        let read = client.call(&Command::Read { offset: 2 * MIB, len: LEN, whole: true }).unwrap();
        assert_ne!(read.error, 0, "home is one of before");
        let why = attached.status().failed.expect("nothing goes on");
        assert!(why.contains("not as it was left"), "{why}");
        drop((rig, client));
        let _ = attached.detach();
        drop(attached);

        // The next owner reads the other blocks, and no older one.
        let attached = attach(FarHome::connect(&homes.address, VOLUME, &runtime).unwrap(), &config(&folder, "other"));
        let rig = Rig::new(attached.clone());
        let mut client = rig.connect();
        let mut read = |offset| client.call(&Command::Read { offset, len: 4096, whole: true }).unwrap();
        assert_ne!(read(7 * 4096).error, 0, "the block is an older one");
        assert_eq!([0, 8 * MIB].map(|at| (read(at).error, read(at).data[0])), [(0, 1), (0, 1)]);
        ask(&mut client, &Command::Write { offset: 7 * 4096, data: &[3; 4096], fua: true });
        end(rig, &attached);
        attached.detach().unwrap();
        assert_eq!(std::fs::read(raw(&dir, VOLUME)).unwrap()[7 * 4096], 3);
    }
}
