//! A real building's model, where there is one: `THORP_TEST_MODEL`, or the one that lies beside the checkout.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::PathBuf;
use workloads::step::{self, Entity, Part, Reader, Statement};

fn model() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/schependomlaan-frames.ifczip");
    let path = std::env::var_os("THORP_TEST_MODEL").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    path.exists().then_some(path)
}

fn split(reader: Reader) -> (Vec<Part>, Vec<Entity>) {
    let (mut header, mut entities) = (Vec::new(), Vec::new());
    for statement in reader {
        match statement.unwrap_or_else(|error| panic!("{error}")) {
            Statement::Header(part) => header.push(part),
            Statement::Entity(entity) => entities.push(entity),
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
    entities.iter().for_each(|entity| entity.for_each_ref(|to| assert!(numbers.contains(to), "#{to} is there")));

    let mut text = Vec::new();
    step::write_header(&mut text, &header).unwrap();
    entities.iter().for_each(|entity| step::write_entity(&mut text, entity).unwrap());
    step::write_footer(&mut text).unwrap();
    assert_eq!(split(Reader::new(Box::new(Cursor::new(text)), None)), (header, entities));
}
