//! A volume with a write-back cache, on real files and by real connections.

use crate::rig::{Folder, Random, Rig, ask, program, run};
use attach::{Ack, AttachConfig, AttachError, Attached, create_home, home_status};
use fixtures::nbd_client::{Client, Command};
use nbd::Device;
use nbd::numbers::flag;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const MIB: u64 = 1 << 20;

/// As long as a test waits for what has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

fn config(folder: &Folder, cache: &str) -> AttachConfig {
    let config = AttachConfig::new(folder.path("disk"), folder.path(cache));
    AttachConfig { log_bytes: 4 * MIB, clean_bytes: 2 * MIB, ..config }
}

/// Stops a server, and waits until none of its threads has the volume any more: to drop it then ends it.
pub(crate) fn end(rig: Rig, attached: &Arc<Attached>) {
    assert!(rig.server.stop(PATIENCE));
    let begun = Instant::now();
    while Arc::strong_count(attached) > 1 {
        assert!(begun.elapsed() < PATIENCE, "a thread keeps the volume");
        thread::yield_now();
    }
}

fn home(size: u64) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let disk = folder.path("disk");
    create_home(&disk, size).unwrap();
    (folder, disk)
}

/// Changes a region of its own and holds what it reads there against what it wrote; gives what the region has in the
/// end.
pub(crate) fn work(client: &mut Client, first: u64, len: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut model = vec![0; len as usize];
    for _ in 0..300 {
        let at = random.below(len / 512) * 512;
        let size = ((1 + random.below(128)) * 512).min(len - at);
        let (offset, range) = (first + at, at as usize..(at + size) as usize);
        let len = size as u32;
        match random.below(10) {
            0..=4 => {
                let data = random.bytes(size as usize);
                ask(client, &Command::Write { offset, data: &data, fua: random.below(8) == 0 });
                model[range].copy_from_slice(&data);
            }
            5 => {
                let flags = if random.below(2) == 0 { flag::NO_HOLE } else { 0 };
                ask(client, &Command::Zero { offset, len, flags });
                model[range].fill(0);
            }
            6 => drop(ask(client, &Command::Flush)),
            _ => {
                let read = ask(client, &Command::Read { offset, len, whole: random.below(2) == 0 });
                assert!(read.data == model[range], "seed {seed}: {len} bytes at {offset}");
            }
        }
    }
    model
}

/// Ten times what the log holds, by several connections at once, in writes that share no block's peers with others but
/// do share blocks: each region ends in the middle of one.
#[test]
fn what_many_clients_write_is_home_when_it_is_detached() {
    const LEN: u64 = 10 * MIB + 512;
    let (folder, disk) = home(44 * MIB);
    for (round, ack) in [Ack::Flush, Ack::Write].into_iter().enumerate() {
        let attached = Arc::new(Attached::attach(&AttachConfig { ack, ..config(&folder, "cache") }).unwrap());
        let rig = Rig::new(attached.clone());
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let rig = &rig;
                    scope.spawn(move || {
                        let mut connection = rig.connect();
                        // Nothing of the round before is left.
                        for at in (0..LEN).step_by(MIB as usize) {
                            let len = MIB.min(LEN - at) as u32;
                            ask(&mut connection, &Command::Zero { offset: client * LEN + at, len, flags: 0 });
                        }
                        work(&mut connection, client * LEN, LEN, 10 * round as u64 + client)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(rig.server.stop(PATIENCE));
        attached.detach().unwrap();
        assert_eq!(attached.status().dirty_writes, 0);
        let bytes = std::fs::read(&disk).unwrap();
        for (client, model) in models.iter().enumerate() {
            let first = client * LEN as usize;
            assert!(bytes[first..first + model.len()] == model[..], "the region of client {client}");
        }
    }
    assert_eq!(home_status(&disk, None).unwrap().dirty_at, None);
}

#[test]
fn a_cache_that_was_not_detached_goes_on_where_it_ended() {
    let (folder, disk) = home(8 * MIB);
    let config = AttachConfig { age_max: Duration::from_secs(3600), ..config(&folder, "cache") };
    let data = Random(1).bytes(300_000);
    let attached = Arc::new(Attached::attach(&config).unwrap());
    let rig = Rig::new(attached.clone());
    let mut client = rig.connect();
    ask(&mut client, &Command::Write { offset: 1000 * 512, data: &data[..299_520], fua: false });
    ask(&mut client, &Command::Flush);
    drop(client);
    end(rig, &attached);
    drop(attached);
    assert!(std::fs::read(&disk).unwrap().iter().all(|byte| *byte == 0), "nothing was old enough to go home");
    let place = home_status(&disk, None).unwrap().dirty_at.unwrap();
    assert!(place.ends_with("/cache"), "{place}");

    // Another cache would not have it.
    let other = AttachConfig { cache: folder.path("other"), ..config.clone() };
    let refused = Attached::attach(&other).unwrap_err();
    assert!(matches!(&refused, AttachError::DirtyElsewhere(at) if *at == place), "{refused}");

    let attached = Arc::new(Attached::attach(&config).unwrap());
    let rig = Rig::new(attached.clone());
    let read = ask(&mut rig.connect(), &Command::Read { offset: 1000 * 512, len: 299_520, whole: true });
    assert!(read.data == data[..299_520]);
    assert!(rig.server.stop(PATIENCE));
    attached.detach().unwrap();
    assert!(std::fs::read(&disk).unwrap()[512_000..811_520] == data[..299_520]);

    // Now any cache may have the volume, and the first one, coming back, has nothing that it could lose.
    Attached::attach(&other).unwrap().detach().unwrap();
    Attached::attach(&config).unwrap().detach().unwrap();
}

#[test]
fn a_cache_that_was_superseded_says_what_would_be_dropped() {
    let (folder, _) = home(MIB);
    let config = AttachConfig { age_max: Duration::from_secs(3600), ..config(&folder, "cache") };
    let write = |attached: &Arc<Attached>| {
        let rig = Rig::new(attached.clone());
        ask(&mut rig.connect(), &Command::Write { offset: 0, data: &[7; 4096], fua: true });
        end(rig, attached);
    };
    write(&Arc::new(Attached::attach(&config).unwrap()));
    let forced = AttachConfig { cache: folder.path("other"), is_forced: true, ..config.clone() };
    Attached::attach(&forced).unwrap().detach().unwrap();
    assert!(matches!(Attached::attach(&config).unwrap_err(), AttachError::Superseded(1)));
    let attached = Arc::new(Attached::attach(&AttachConfig { is_forced: true, ..config }).unwrap());
    let rig = Rig::new(attached.clone());
    let read = ask(&mut rig.connect(), &Command::Read { offset: 0, len: 4096, whole: true });
    assert!(read.data == [0; 4096], "what was dropped does not come back");
}

#[test]
fn what_cannot_be_attached_is_refused_by_its_reason() {
    let (folder, disk) = home(MIB);
    let good = config(&folder, "cache");
    let attached = Attached::attach(&good).unwrap();
    let refused = |config: AttachConfig| Attached::attach(&config).unwrap_err().to_string();
    let second = refused(AttachConfig { cache: folder.path("other"), ..good.clone() });
    assert!(second.contains("attached by another process"), "{second}");
    let second = refused(good.clone());
    assert!(second.contains("used by another process"), "{second}");
    attached.detach().unwrap();

    let odd = folder.path("odd");
    File::create(&odd).unwrap().set_len(5000).unwrap();
    let said = refused(AttachConfig { home: odd, cache: folder.path("c2"), ..good.clone() });
    assert!(said.contains("has 5000 bytes: expected a whole number of blocks"), "{said}");
    let said = refused(AttachConfig { home: folder.path("nowhere"), cache: folder.path("c3"), ..good.clone() });
    assert!(said.contains("nowhere") && said.contains("No such file"), "{said}");
    create_home(&folder.path("disk2"), MIB).unwrap();
    let said = refused(AttachConfig { home: folder.path("disk2"), ..good.clone() });
    assert!(said.contains("the cache of another volume"), "{said}");
    std::fs::create_dir(folder.path("full")).unwrap();
    std::fs::write(folder.path("full/file"), "x").unwrap();
    let said = refused(AttachConfig { cache: folder.path("full"), ..good.clone() });
    assert!(said.contains("has files in it"), "{said}");
    assert!(create_home(&disk, MIB).is_err(), "it is there already");
}

#[test]
fn clean_blocks_are_read_from_the_cache_after_a_restart() {
    let (folder, disk) = home(MIB);
    let data = Random(3).bytes(MIB as usize);
    std::fs::write(&disk, &data).unwrap();
    let config = config(&folder, "cache");
    let attached = Arc::new(Attached::attach(&config).unwrap());
    let rig = Rig::new(attached.clone());
    let read = ask(&mut rig.connect(), &Command::Read { offset: 0, len: MIB as u32, whole: true });
    assert!(read.data == data);
    assert!(rig.server.stop(PATIENCE));
    // They are kept after the answer.
    let begun = Instant::now();
    while attached.status().clean_blocks.0 < 256 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", attached.status());
        thread::sleep(Duration::from_millis(1));
    }
    attached.detach().unwrap();
    let attached = Arc::new(Attached::attach(&config).unwrap());
    assert_eq!(attached.status().clean_blocks, (256, 512));
    // Bytes that are not at home can only have been read from the cache.
    File::options().write(true).open(&disk).unwrap().set_len(0).unwrap();
    File::options().write(true).open(&disk).unwrap().set_len(MIB).unwrap();
    let rig = Rig::new(attached.clone());
    let read = ask(&mut rig.connect(), &Command::Read { offset: 0, len: MIB as u32, whole: true });
    assert!(read.data == data);
    assert!(rig.server.stop(PATIENCE));
    attached.detach().unwrap();
    // A home that somebody else has written to in the meantime is not what is cached: not for the attachment that sees
    // it, which ends before it has written anything, and not for the next one, which cannot see it any more.
    std::fs::write(&disk, vec![9; MIB as usize]).unwrap();
    drop(Attached::attach(&config).unwrap());
    let attached = Arc::new(Attached::attach(&config).unwrap());
    let rig = Rig::new(attached.clone());
    let read = ask(&mut rig.connect(), &Command::Read { offset: 0, len: MIB as u32, whole: true });
    assert!(read.data == vec![9; MIB as usize]);
}

#[test]
fn fio_finds_what_it_wrote_through_a_cache() {
    let Some(fio) = program("fio") else { return };
    if !run(program("fio").unwrap(), ["--enghelp"]).contains("nbd") {
        eprintln!("skipped: this fio has no engine for NBD");
        return;
    }
    let (folder, _) = home(16 * MIB);
    let attached = Arc::new(Attached::attach(&config(&folder, "cache")).unwrap());
    let rig = Rig::new(attached.clone());
    let uri = format!("--uri={}", rig.uri());
    let job = ["--name=verify", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=512-64k", "--iodepth=32", "--size=16m"];
    let verify =
        ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--fsync=64", "--randseed=7", "--verify_state_save=0"];
    let told = run(fio, job.into_iter().chain(verify));
    assert!(told.contains("err= 0"), "{told}");
    assert!(attached.geometry().size == 16 * MIB && attached.status().write_backs > 0);
}
