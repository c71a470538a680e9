//! The promises of a home, over files that fail when they are told to; and the bytes of its state.

use crate::page_file::state::State;
use crate::page_file::{Home, Installed, RedbHome};
use bytes::Bytes;
use messages::Advance;
use std::fmt::Write;
use std::sync::Arc;
use store::{Checkpoint, ClientOutcomes, HomeImage, SetAside};
use types::{ClientId, PageId, SlotChange, Version};
use vfs::memory::{Fault, Memory};

const CACHE_BYTES: usize = 1 << 20;

fn open(files: &Memory) -> RedbHome {
    RedbHome::open(Arc::new(files.clone()), CACHE_BYTES, Arc::default()).unwrap().0
}

fn created() -> (Memory, RedbHome) {
    let files = Memory::default();
    RedbHome::create(&files, CACHE_BYTES).unwrap();
    let home = open(&files);
    (files, home)
}

/// A batch of this many pages, all at one version, and the checkpoint that goes with it.
fn batch(pages: u32, version: u64) -> (Vec<HomeImage>, Checkpoint) {
    let image = |number| HomeImage {
        page: PageId::new(1, number),
        version: Version(version),
        image: Bytes::from(vec![version as u8; 3000]),
    };
    ((0..pages).map(image).collect(), Checkpoint { applied: Version(version).into(), ..Checkpoint::default() })
}

fn version(home: &dyn Home, number: u32) -> Option<Version> {
    home.read(&[PageId::new(1, number)]).unwrap()[0].1.as_ref().unwrap().as_ref().map(|(version, _)| *version)
}

#[test]
fn a_batch_is_home_with_its_checkpoint_or_not_at_all() {
    let (files, home) = created();
    let (images, checkpoint) = batch(3, 7);
    assert_eq!(home.install(&images, checkpoint.clone(), 70).unwrap(), Installed::Done);
    files.plan(None);
    let (images, next) = batch(4, 8);
    home.install(&images, next.clone(), 80).unwrap();
    let operations = files.operations();
    for at in 0..=operations {
        let (files, home) = created();
        let (images, checkpoint) = batch(3, 7);
        home.install(&images, checkpoint.clone(), 70).unwrap();
        files.plan(Some(Fault::Crash(at)));
        let (images, next) = batch(4, 8);
        let installed = home.install(&images, next.clone(), 80).is_ok();
        let home = open(&files.after_kill());
        let is_new = home.checkpoint() == next;
        assert!(is_new || !installed, "crash at {at}: it was promised");
        let (applied, durable, installs, fourth) = if is_new { (8, 80, 2, Some(Version(8))) } else { (7, 70, 1, None) };
        assert_eq!(home.checkpoint().applied, Version(applied).into(), "crash at {at}");
        assert_eq!((home.durable(), home.installs()), (durable, installs), "crash at {at}");
        assert_eq!((version(&home, 0), version(&home, 3)), (Some(Version(applied)), fourth), "crash at {at}");
        assert!(home.must_have(installs).is_ok() && home.must_have(installs + 1).is_err());
    }
}

#[test]
fn a_closed_home_reads_nothing() {
    let (files, home) = created();
    let (images, checkpoint) = batch(1, 7);
    home.install(&images, checkpoint, 70).unwrap();
    home.close(75).unwrap();
    assert!(home.read(&[PageId::new(1, 0)]).is_err());
    let home = open(&files);
    assert_eq!((home.durable(), version(&home, 0)), (75, Some(Version(7))));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes anything");
        text
    })
}

#[test]
fn a_checkpoint() {
    let advance = Advance { page: PageId::new(1, 2), prev: Version(3), version: Version(4) };
    let outcomes = ClientOutcomes { client: ClientId(5), answered: 6, committed: vec![(7, vec![advance])] };
    let checkpoint = Checkpoint {
        applied: Version(8).into(),
        forgotten: Version(9).into(),
        next_pages: vec![(1, 10)],
        outcomes: vec![outcomes],
        ..Checkpoint::default()
    };
    let state = State { digest: 11, installs: 12, pages: 13, durable: 14, checkpoint };
    let bytes = state.encode();
    assert_eq!(State::decode(&Bytes::from(bytes.clone())), Ok(state));
    assert_eq!(
        hex(&bytes),
        "010000000b0000000c000000000000000d000000000000000e00000000000000080000000000000009000000000000000100000001000000\
         010000000a00000005000000000000000600000000000000010000000000000007000000000000000100000000000000020000000100000003\
         000000000000000400000000000000a0f6bd5a"
    );
    for len in 0..bytes.len() {
        assert!(State::decode(&Bytes::copy_from_slice(&bytes[..len])).is_err());
    }
}

#[test]
fn changes_that_were_set_aside() {
    let changes =
        vec![SlotChange { slot: 3, value: Some(Bytes::from_static(b"kept")) }, SlotChange { slot: 4, value: None }];
    let aside = vec![SetAside { page: PageId::new(1, 2), version: Version(8), changes }];
    let checkpoint = Checkpoint { applied: Version(9).into(), aside, ..Checkpoint::default() };
    let state = State { digest: 11, installs: 12, pages: 13, durable: 14, checkpoint };
    let bytes = state.encode();
    assert_eq!(State::decode(&Bytes::from(bytes.clone())), Ok(state));
    let body = &hex(&bytes)[..2 * (bytes.len() - 4)];
    assert_eq!(
        body,
        "020000000b0000000c000000000000000d000000000000000e00000000000000090000000000000000000000000000000000000000000000\
         0100000000000000020000000100000008000000000000000200000000000000030000000400000\
         06b65707404000000ffffffff"
    );
    for len in 0..bytes.len() {
        assert!(State::decode(&Bytes::copy_from_slice(&bytes[..len])).is_err());
    }
}
