//! The clients of others, as users run them.

use crate::rig::{Folder, Random, Rig, program, run};
use fixtures::{FileDevice, MemoryDevice};
use std::fs::File;
use std::sync::Arc;

#[test]
fn nbdinfo_sees_what_the_server_can_do() {
    let Some(nbdinfo) = program("nbdinfo") else { return };
    let rig = Rig::new(Arc::new(MemoryDevice::new(3 << 20)));
    let told = run(nbdinfo, ["--json", &rig.uri()]);
    let expected = [
        r#""protocol": "newstyle-fixed""#,
        r#""structured": true"#,
        r#""export-size": 3145728"#,
        r#""base:allocation""#,
        r#""is_read_only": false"#,
        r#""can_cache": true"#,
        r#""can_df": true"#,
        r#""can_fast_zero": true"#,
        r#""can_flush": true"#,
        r#""can_fua": true"#,
        r#""can_multi_conn": true"#,
        r#""can_trim": true"#,
        r#""can_zero": true"#,
        r#""block_size_minimum": 1"#,
        r#""block_size_preferred": 4096"#,
        r#""block_size_maximum": 33554432"#,
    ];
    for part in expected {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let listed = run(program("nbdinfo").unwrap(), ["--list", &rig.uri()]);
    assert!(listed.contains("export=\"disk\"") && listed.contains("a disk for tests"), "{listed}");
}

#[test]
fn nbdcopy_copies_both_ways_and_keeps_holes() {
    let (Some(there), Some(back), Some(nbdinfo)) = (program("nbdcopy"), program("nbdcopy"), program("nbdinfo")) else {
        return;
    };
    let folder = Folder::new();
    let mut image = vec![0; 16 << 20];
    image[5 << 20..7 << 20].copy_from_slice(&Random(4).bytes(2 << 20));
    std::fs::write(folder.path("from"), &image).unwrap();
    File::create(folder.path("disk")).unwrap().set_len(16 << 20).unwrap();
    let rig = Rig::new(Arc::new(FileDevice::open(&folder.path("disk"), false).unwrap()));
    let (from, to) = (folder.path("from"), folder.path("to"));
    run(there, ["--destination-is-zero", "--flush", from.to_str().unwrap(), &rig.uri()]);
    assert!(rig.server.tally().connections > 1, "it uses several connections");
    run(back, [&rig.uri(), to.to_str().unwrap()]);
    assert!(std::fs::read(to).unwrap() == image);
    assert!(std::fs::read(folder.path("disk")).unwrap() == image);
    let map = run(nbdinfo, ["--map", &rig.uri()]);
    let rows: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["0", "5242880", "3", "hole,zero"]);
    assert_eq!(rows[1], ["5242880", "2097152", "0", "data"]);
    assert_eq!(rows[2], ["7340032", "9437184", "3", "hole,zero"]);
}

#[test]
fn qemu_writes_discards_and_reads() {
    let (Some(qemu_io), Some(qemu_img)) = (program("qemu-io"), program("qemu-img")) else { return };
    let rig = Rig::new(Arc::new(MemoryDevice::new(8 << 20)));
    let uri = rig.uri();
    let script = [
        "write -P 0x5a 0 1M",
        "write -P 0xa5 -f 1M 64k",
        "write -z -u 128k 128k",
        "write -z 512k 4k",
        "discard 256k 64k",
        "flush",
        "read -P 0x5a 0 128k",
        "read -P 0 128k 192k",
        "read -P 0x5a 320k 192k",
        "read -P 0 512k 4k",
        "read -P 0xa5 1M 64k",
        "aio_write -P 1 2M 1M",
        "aio_write -P 2 3M 1M",
        "aio_read -P 0x5a 600k 100k",
        "aio_flush",
        "read -P 1 2M 1M",
        "read -P 2 3M 1M",
    ];
    let script = script.iter().flat_map(|line| ["-c", line]);
    let said = run(qemu_io, ["-f", "raw", "-t", "none", "-d", "unmap", uri.as_str()].into_iter().chain(script));
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    let map = run(qemu_img, ["map", "--output=json", "-f", "raw", &rig.uri()]);
    assert!(
        map.contains(r#""start": 131072, "length": 196608, "depth": 0, "present": true, "zero": true, "data": false"#),
        "{map}"
    );
}

#[test]
fn fio_finds_what_it_wrote() {
    let Some(fio) = program("fio") else { return };
    let engines = run(program("fio").unwrap(), ["--enghelp"]);
    if !engines.contains("nbd") {
        eprintln!("skipped: this fio has no engine for NBD");
        return;
    }
    let folder = Folder::new();
    File::create(folder.path("disk")).unwrap().set_len(4 << 20).unwrap();
    let rig = Rig::new(Arc::new(FileDevice::open(&folder.path("disk"), false).unwrap()));
    let uri = format!("--uri={}", rig.uri());
    let job = ["--name=verify", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=512-16k", "--iodepth=32", "--size=4m"];
    let verify =
        ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--fsync=16", "--randseed=7", "--verify_state_save=0"];
    let told = run(fio, job.into_iter().chain(verify));
    assert!(told.contains("err= 0"), "{told}");
}
