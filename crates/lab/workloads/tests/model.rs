//! A real building's model, where there is one: `THORP_TEST_MODEL`, or the one that lies beside the checkout.

use designs::files::{self, How};
use designs::step::{self, Reader, Statement};
use designs::{Entity, Part, write_entity, write_header};
use objects::{Db, wait_for};
use std::collections::HashSet;
use std::io::Cursor;
use std::path::PathBuf;
use workloads::Random;
use workloads::design;

fn model() -> Option<PathBuf> {
    let beside = "../../../../shared/data/schependomlaan-frames.ifczip";
    let path = std::env::var_os("THORP_TEST_MODEL").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    path.exists().then_some(path)
}

fn split(reader: Reader) -> (Vec<Part>, Vec<Entity>) {
    let (mut header, mut entities) = (Vec::new(), Vec::new());
    for statement in reader {
        match statement.unwrap_or_else(|error| panic!("{error}")) {
            Statement::Header(part) => header.push(part),
            Statement::Entity(entity) => entities.push(entity),
            Statement::Extra(_) => {}
        }
    }
    (header, entities)
}

#[test]
fn a_real_model_is_read_whole_and_written_the_same() {
    let Some(path) = model() else {
        eprintln!("no model here: set THORP_TEST_MODEL to an IFC file to run this test");
        return;
    };
    let (header, entities) = split(step::open(&path).unwrap());
    assert!(entities.len() > 125_000, "{} entities", entities.len());
    assert!(entities.iter().any(|entity| entity.is_a("IFCDOOR") || entity.is_a("IFCWINDOW")));

    let numbers: HashSet<u64> = entities.iter().map(|entity| entity.number).collect();
    assert_eq!(numbers.len(), entities.len(), "every entity has a number of its own");
    for entity in &entities {
        entity.for_each_ref(|to| assert!(numbers.contains(to), "#{to} is there"));
    }

    let mut text = Vec::new();
    write_header(&mut text, &header).unwrap();
    text.extend_from_slice(b"DATA;\n");
    for entity in &entities {
        write_entity(&mut text, entity).unwrap();
    }
    text.extend_from_slice(b"ENDSEC;\nEND-ISO-10303-21;\n");
    assert_eq!(split(Reader::new(Box::new(Cursor::new(text)), None)), (header, entities));
}

/// Loaded, walked, changed, dumped: only what was changed is not as it was.
#[test]
fn a_real_model_is_a_design() {
    let Some(path) = model() else {
        eprintln!("no model here: set THORP_TEST_MODEL to an IFC file to run this test");
        return;
    };
    let db = Db::in_memory().unwrap();
    let design = wait_for(files::load(&db, step::open(&path).unwrap(), "house", How::New, async |_| Ok(()), |_| {}))
        .unwrap()
        .design;
    let random = Random::new(1);
    let work = db.transact_async(async |mut tx| {
        let mut random = random.clone();
        let element = design::pick(&mut tx, &design, &mut random).await?.expect("there are windows");
        let walk = design::walk(&mut tx, element).await?;
        let changed = design::change(&mut tx, &walk, &mut random).await?.expect("a window has properties");
        Ok((walk.entities, tx.get(changed).await?.entity.number))
    });
    let (visited, changed) = wait_for(work).unwrap();
    assert!((100..20_000).contains(&visited), "{visited} entities of one element");

    let mut text = Vec::new();
    wait_for(files::dump_in_parts(&db, &design, &mut text, |_| {})).unwrap();
    let (header, mut before) = split(step::open(&path).unwrap());
    let (header_after, after) = split(Reader::new(Box::new(Cursor::new(text)), None));
    before.sort_by_key(|entity| entity.number);
    assert_eq!(header_after, header);
    assert_eq!(after.len(), before.len());
    let differ: Vec<u64> = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| a.number).collect();
    assert_eq!(differ, [changed]);
}
