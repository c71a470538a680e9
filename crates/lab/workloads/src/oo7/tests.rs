//! A module is what OO7 says it is.

use super::*;
use crate::random::Random;
use objects::{Db, Ref, Result, wait_for};
use std::collections::HashSet;

const TINY: Size = Size { composite_parts: 10, levels: 3, document_bytes: 10_000, ..Size::SMALL };

fn built() -> (Db, Ref<Module>) {
    let db = Db::in_memory().unwrap();
    let module = wait_for(build(&db, 1, TINY, 7, |_| {})).unwrap();
    (db, module)
}

fn run(db: &Db, module: Ref<Module>, traversal: Traversal) -> Result<Visited> {
    wait_for(db.transact_async(async |mut tx| traverse_module(&mut tx, module, traversal).await))
}

#[test]
fn the_known_numbers_of_visits() {
    assert_eq!(Size::SMALL.visits(), 43_740);
    assert_eq!(Size::MEDIUM.visits(), 437_400);
}

#[test]
fn a_traversal_visits_and_changes_what_it_should() {
    let (db, module) = built();
    let read = run(&db, module, Traversal::T1).unwrap();
    assert_eq!((read.parts, read.connections, read.updates), (TINY.visits(), 3 * TINY.visits(), 0));
    assert_eq!(run(&db, module, Traversal::T1).unwrap(), read);

    // A part that several assemblies share is swapped as often as it is visited.
    let composites = TINY.visits() / u64::from(TINY.atomic_parts);
    assert_eq!(run(&db, module, Traversal::T2a).unwrap().updates, composites);
    assert_eq!(run(&db, module, Traversal::T2b).unwrap().updates, read.parts);
    let before = run(&db, module, Traversal::T1).unwrap();
    assert_eq!(run(&db, module, Traversal::T2c).unwrap().updates, 4 * read.parts);
    assert_eq!(run(&db, module, Traversal::T1).unwrap(), before, "four swaps leave a part as it was");
    assert_ne!(before.balance, read.balance);
}

#[test]
fn the_index_follows_the_dates() {
    let (db, module) = built();
    assert_eq!(run(&db, module, Traversal::T3b).unwrap().updates, TINY.visits());
    let parts = wait_for(db.transact_async(async |mut tx| {
        let by_date = tx.get(module).await?.by_date;
        let (mut index, mut parts) = (by_date.iter(), 0);
        while let Some(((date, id), part)) = index.next(&mut tx).await? {
            let part = tx.get(part).await?;
            assert_eq!((part.build_date, part.id), (date, id));
            parts += 1;
        }
        Ok(parts)
    }));
    assert_eq!(parts.unwrap(), TINY.composite_parts * TINY.atomic_parts);
}

#[test]
fn the_same_seed_picks_the_same_parts() {
    let (db, module) = built();
    let pick = |seed| {
        wait_for(db.transact_async(async |mut tx| {
            let mut random = Random::new(seed);
            let part = Module::pick(&mut tx, module, &mut random).await?;
            Ok(tx.get(part).await?.id)
        }))
        .unwrap()
    };
    assert_eq!(pick(1), pick(1));
    assert!((0..20).map(pick).collect::<HashSet<_>>().len() > 3);
}

#[test]
fn a_module_is_built_once() {
    let (db, _) = built();
    let again = wait_for(build(&db, 1, TINY, 7, |_| {})).unwrap_err();
    assert_eq!(again.to_string(), "the store holds an OO7 module 1 already");
}

#[test]
fn a_part_of_the_module_is_picked_from() {
    let (db, module) = built();
    let picked = |seed| {
        let pick = async |mut tx: objects::AsyncTx| {
            let levels = TINY.levels - 1;
            let part = Module::pick_below(&mut tx, module, levels, &mut Random::new(seed)).await?;
            Ok(tx.get(part).await?.id)
        };
        wait_for(db.transact_async(pick)).unwrap()
    };
    let parts: HashSet<_> = (0..50).map(picked).collect();
    assert!(parts.len() <= TINY.fan_out as usize, "one base assembly has no more than {}", TINY.fan_out);
}

#[test]
fn a_traversal_of_a_part_reads_the_pages_that_the_experiments_count_on() {
    let pages_of_parts = |size: Size| {
        let db = Db::in_memory().unwrap();
        let module = wait_for(build(&db, 1, size, 7, |_| {})).unwrap();
        let pages = db.transact_async(async |mut tx| {
            let mut pages = Vec::new();
            for part in composite_parts(&mut tx, module).await? {
                let CompositePart { parts, .. } = tx.get(part).await?;
                let mut read = HashSet::from([part.id().page]);
                for part in parts {
                    read.insert(part.id().page);
                    read.extend(tx.get(part).await?.to.iter().map(|connection| connection.id().page));
                }
                pages.push(read.len());
            }
            Ok(pages)
        });
        wait_for(pages).unwrap()
    };
    let few = |size| Size { composite_parts: 6, levels: 3, ..size };
    assert!(pages_of_parts(few(Size::MEDIUM)).iter().all(|&pages| pages == 8));
    assert!(pages_of_parts(few(Size::BUDDYCACHE)).iter().all(|&pages| pages == 9));
}
