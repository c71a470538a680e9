//! A host dies, a holder brings home what it has left, and the host comes back with its cache.

use crate::program::thorp;
use crate::stored_volumes::{Host, Site, version, write};
use crate::volumes::BLOCK;
use serde_json::Value;

const BLOCKS: u64 = 64;

fn clean_blocks(cache: &str) -> u64 {
    let status = thorp(["volume", "status", "--cache", cache, "--json"]).ok();
    let status: Value = serde_json::from_str(&status).unwrap();
    status["clean_blocks"].as_u64().unwrap()
}

fn write_all(host: &Host, blocks: std::ops::Range<u64>, of: u64) {
    let mut client = host.connect();
    blocks.for_each(|block| write(&mut client, block, of + block));
}

#[test]
fn a_host_that_comes_back_after_a_rescue_keeps_its_clean_blocks() {
    let site = Site::new(0);
    let _holder = site.holder_in(&site.folder.file("copies"), 0, &["--bring-home-after-s", "1"]);
    site.create_with("2", "8M");
    let cache = site.folder.file("host-1");
    let host = site.attach("host-1", &[]).unwrap();
    write_all(&host, 0..BLOCKS, 100);
    host.process.end().unwrap();
    let host = site.attach("host-1", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    assert!(clean_blocks(&cache) >= BLOCKS, "what was written is clean when it is home");
    write_all(&host, 0..8, 200);
    drop(host.process);
    site.wait_until("a holder has brought it home", |it| it["attached_at"].is_null());

    let host = site.attach("host-1", &[]).unwrap();
    let clean = clean_blocks(&cache);
    assert!((BLOCKS - 8..=BLOCKS).contains(&clean), "{clean} clean blocks");
    let bytes = host.read();
    for block in 0..BLOCKS {
        let expected = if block < 8 { 200 } else { 100 } + block;
        assert_eq!(version(&bytes[..], block as usize), expected, "block {block} of {BLOCK} bytes");
    }
    host.process.end().unwrap();

    // Another host writes in the meantime: none of its blocks is considered current.
    let other = site.attach("host-2", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    write_all(&other, 0..BLOCKS, 300);
    drop(other.process);
    site.wait_until("a holder has brought it home", |it| it["attached_at"].is_null());
    let host = site.attach("host-1", &[]).unwrap();
    assert_eq!(clean_blocks(&cache), 0);
    assert_eq!(version(&host.read(), 5), 305);
    host.process.end().unwrap();
}
