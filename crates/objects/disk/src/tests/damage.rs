//! Torn tails, flipped bits and missing files: each is healed, or refused by name; nothing is lost in silence.

use crate::DiskError;
use crate::doctor::check_files;
use crate::tests::lack::Lacking;
use crate::tests::node::{Node, Promises, config, image};
use log::is_segment;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{PageId, Version};
use vfs::memory::{Dice, Memory};
use vfs::{FileError, Files};

fn snapshot(files: &Memory) -> BTreeMap<String, Vec<u8>> {
    files.list().unwrap().into_iter().map(|name| (name.clone(), files.bytes(&name))).collect()
}

fn store(rounds: u64) -> (Memory, Promises, Node) {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let node = Node::open(&files, &mut promises).unwrap();
    node.work(&mut promises, rounds).unwrap();
    (files, promises, node)
}

#[test]
fn a_tail_that_is_torn_at_any_byte_is_cut() {
    // Records of one flush in one segment, of two frames, and of a frame that continues in the next segment.
    for (rounds, count) in [(1, 1), (1, 2), (3, 1)] {
        let (files, mut promises, node) = store(rounds);
        let before = snapshot(&files);
        let acknowledged = promises.clone();
        node.append(&mut promises, count).unwrap();
        let after = snapshot(&files);
        drop(node);
        // A segment that was made for the flush was zeros before.
        let before = |name: &str, at: usize| before.get(name).map_or(0, |bytes| bytes[at]);
        let differs = |(name, at): &(&String, usize)| before(name, *at) != after[*name][*at];
        let all = after.iter().flat_map(|(name, bytes)| (0..bytes.len()).map(move |at| (name, at)));
        let changed: Vec<(&String, usize)> = all.filter(differs).collect();
        assert!(changed.len() > 8, "{} bytes changed", changed.len());
        let step = changed.len() / 100 + 1;
        for torn in (0..changed.len()).filter(|at| *at < 200 || at % step == 0 || changed.len() - at < 100) {
            let files = files.after_kill();
            for part in changed[torn..].chunk_by(|a, b| a.0 == b.0) {
                files.damage(part[0].0, |bytes| part.iter().for_each(|(name, at)| bytes[*at] = before(name, *at)));
            }
            let mut promises = Promises { submitted: promises.submitted, ..acknowledged.clone() };
            let node = Node::open(&files, &mut promises).unwrap_or_else(|error| panic!("torn at {torn}: {error}"));
            assert_eq!(promises.durable, acknowledged.durable, "torn at {torn}: a part of a flush was believed");
            node.append(&mut promises, 1).unwrap();
        }
    }
}

/// Opens a damaged store and reads all of it. If that is refused, the doctor must find something, too.
fn refused_or_whole(files: &Memory, promises: &Promises, case: &str) {
    let untouched = snapshot(files);
    let report = check_files(Arc::new(files.clone())).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(snapshot(files), untouched, "{case}: the doctor has changed something");
    match Node::open(files, &mut promises.clone()) {
        Ok(_) => {}
        Err(DiskError::File(FileError::Corrupt { .. } | FileError::Format { .. })) => {
            assert!(!report.findings.is_empty(), "{case}: refused, but the doctor finds nothing");
        }
        Err(error) => panic!("{case}: refused for the wrong reason: {error}"),
    }
}

#[test]
fn a_flipped_bit_anywhere_is_healed_or_refused() {
    let (files, promises, node) = store(4);
    node.close().unwrap();
    let mut dice = Dice(7);
    let contents = snapshot(&files);
    for (name, bytes) in &contents {
        // All of a small file's bytes; of a large one's, those that say something, and some of the others.
        let telling: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for flip in 0..telling.len().min(300) {
            let any = dice.roll(bytes.len() as u64) as usize;
            let at =
                if telling.len() < 300 { telling[flip] } else { telling[dice.roll(telling.len() as u64) as usize] };
            let at = if flip % 8 == 0 { any } else { at };
            let bit = dice.roll(8);
            let damaged = files.after_kill();
            damaged.damage(name, |bytes| bytes[at] ^= 1 << bit);
            refused_or_whole(&damaged, &promises, &format!("bit {bit} of byte {at} of {name}"));
        }
    }
}

#[test]
fn every_bit_of_the_headers_counts() {
    let (files, promises, node) = store(4);
    node.close().unwrap();
    for name in files.list().unwrap().iter().filter(|name| !name.ends_with("store")) {
        for at in 0..64 {
            let damaged = files.after_kill();
            damaged.damage(name, |bytes| bytes[at] ^= 1 << (at % 8));
            refused_or_whole(&damaged, &promises, &format!("byte {at} of {name}"));
        }
    }
}

#[test]
fn a_file_that_is_missing_or_short_is_refused() {
    let (files, promises, node) = store(4);
    node.close().unwrap();
    for name in files.list().unwrap() {
        let short = files.after_kill();
        short.damage(&name, |bytes| bytes.truncate(bytes.len() / 2));
        refused_or_whole(&short, &promises, &format!("half of {name}"));
        let gone = files.after_kill();
        gone.remove(&name).unwrap();
        match Node::open(&gone, &mut promises.clone()) {
            Ok(_) => assert!(name.starts_with("log-") || name == "reserve", "a store without {name} was opened"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_home_from_before_is_refused() {
    let (files, mut promises, node) = store(2);
    let old = files.bytes("home.redb");
    node.work(&mut promises, 2).unwrap();
    node.close().unwrap();
    files.damage("home.redb", |bytes| *bytes = old);
    let error = Node::open(&files, &mut promises).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the log knows of install"), "{error}");
}

#[test]
fn a_log_that_lost_its_end_is_refused() {
    let (files, mut promises, node) = store(2);
    let old = snapshot(&files);
    node.append(&mut promises, 1).unwrap();
    node.close().unwrap();
    for (name, old) in old.into_iter().filter(|(name, _)| is_segment(name)) {
        files.damage(&name, |bytes| *bytes = old);
    }
    let error = Node::open(&files, &mut promises).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("was durable once and is missing"), "{error}");
}

#[test]
fn a_whole_store_has_no_findings() {
    let (files, _, node) = store(4);
    node.close().unwrap();
    let report = check_files(Arc::new(files)).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.pages > 0 && report.records > 0, "{report:?}");
}

/// Where each image of a page is in the home's file.
fn images_of(files: &Memory, page: PageId, version: Version) -> Vec<usize> {
    let (bytes, image) = (files.bytes("home.redb"), image(page, version).image);
    (0..bytes.len() - image.len()).filter(|&at| bytes[at..].starts_with(&image)).collect()
}

/// Pages at one version, all home.
fn with_pages(pages: u32) -> (Memory, Promises, Version) {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let node = Node::open(&files, &mut promises).unwrap();
    node.append(&mut promises, 1).unwrap();
    assert!(node.install(&mut promises, pages, Version(1)).unwrap());
    node.close().unwrap();
    (files, promises, Version(1))
}

/// A page whose image is large enough to be found in the file.
fn a_large_page(version: Version) -> PageId {
    let mut pages = (0..12).map(|number| PageId::new(1, number));
    pages.find(|&page| image(page, version).image.len() > 3000).unwrap()
}

/// Reads pages together. Returns the whole ones, and the damage of the others.
fn read_all(node: &Node, pages: u32) -> (Vec<u32>, Vec<String>) {
    let all = (0..pages).map(|number| PageId::new(1, number)).collect();
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for answer in node.read_each(all).unwrap() {
        match answer {
            Ok((page, found)) => {
                assert_eq!(found.unwrap().1, image(page, Version(1)).image);
                whole.push(page.number);
            }
            Err((_, why)) => damaged.push(why),
        }
    }
    (whole, damaged)
}

#[test]
fn one_damaged_image_is_refused_by_name_and_the_disk_goes_on() {
    const PAGES: u32 = 12;
    let (files, mut promises, version) = with_pages(PAGES);
    let page = a_large_page(version);
    let images = images_of(&files, page, version);
    assert!(!images.is_empty());
    files.damage("home.redb", |bytes| images.iter().for_each(|&at| bytes[at + 4] ^= 1));
    let node = Node::open(&files, &mut promises).unwrap();
    let (whole, damaged) = read_all(&node, PAGES);
    assert_eq!(whole.len(), PAGES as usize - 1);
    let [why] = &damaged[..] else { panic!("expected one, got {damaged:?}") };
    assert!(why.contains("home.redb") && why.contains(&page.to_string()) && why.contains("checksum"), "{why}");
    node.append(&mut promises, 1).unwrap();
    assert!(node.install(&mut promises, 3, Version(2)).unwrap());
}

/// The system cannot read a sector below a page. redb reports only this error until it is opened again.
#[test]
fn a_sector_that_cannot_be_read_costs_what_lies_there() {
    const PAGES: u32 = 12;
    let (files, mut promises, version) = with_pages(PAGES);
    let page = a_large_page(version);
    let image = image(page, version).image.len() as u64;
    let lacking = Lacking::over(files.clone());
    let bad = images_of(&files, page, version).iter().map(|&at| at as u64 + image / 2).collect();
    lacking.set_bad_sectors(bad);
    let node = Node::open_files(Arc::new(lacking.clone()), &mut promises, &config()).unwrap();
    let (whole, damaged) = read_all(&node, PAGES);
    assert!(whole.len() >= PAGES as usize / 2 && !whole.contains(&page.number), "{whole:?}");
    assert!(damaged.iter().all(|why| why.contains("home.redb") && why.contains("os error 5")), "{damaged:?}");
    node.append(&mut promises, 1).unwrap();

    // The sector was replaced, and is whole for the next process.
    node.close().unwrap();
    lacking.set_bad_sectors(Vec::new());
    let node = Node::open_files(Arc::new(lacking), &mut promises, &config()).unwrap();
    assert_eq!(read_all(&node, PAGES).1, Vec::<String>::new());
}
