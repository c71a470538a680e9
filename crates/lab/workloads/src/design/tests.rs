//! A small design in and out; interrupted; walked and changed.

use super::{change, pick, walk};
use crate::Random;
use designs::files::{Dangling, How, LoadOptions, Loaded, Phase, Progress, dump, dump_in_parts, load, remove};
use designs::step::{Reader, Statement};
use designs::{Design, Entity, Object};
use objects::{Db, Ref, Result, wait_for};
use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Windows that share a material and a style, each with a set of properties, and one of them with a part.
fn house(windows: u64) -> String {
    let mut data =
        String::from("#1=IFCMATERIAL('oak');\n#2=IFCWINDOWSTYLE('tilt',#3);\n#3=IFCPANE((1.,2.5E-1),.T.,$,*);\n");
    let mut all = Vec::new();
    for i in 0..windows {
        let at = 10 * (i + 1);
        writeln!(data, "#{}=IFCPROPERTYSINGLEVALUE('mass',$,IFCINTEGER({i}),$);", at + 1).unwrap();
        writeln!(data, "#{}=IFCPROPERTYSET('',$,'set',$,(#{}));", at + 2, at + 1).unwrap();
        writeln!(data, "#{}=IFCRELDEFINESBYPROPERTIES('',$,$,$,(#{at}),#{});", at + 3, at + 2).unwrap();
        writeln!(data, "#{at}=IFCWINDOW('',$,'it''s window {i}',#{});", at + 4).unwrap();
        writeln!(data, "#{}=IFCSHAPE();", at + 4).unwrap();
        all.push(format!("#{at}"));
    }
    writeln!(data, "#4=IFCRELASSOCIATESMATERIAL('',$,$,$,({}),#1);", all.join(",")).unwrap();
    writeln!(data, "#5=IFCRELAGGREGATES('',$,$,$,#10,(#6));\n#6=IFCHANDLE(#1);").unwrap();
    format!("ISO-10303-21;\nHEADER;\nFILE_SCHEMA(('IFC2X3'));\nENDSEC;\nDATA;\n{data}ENDSEC;\nEND-ISO-10303-21;\n")
}

fn read(text: &str) -> Reader {
    Reader::new(Box::new(Cursor::new(text.as_bytes().to_vec())), None)
}

fn entities(text: &str) -> Vec<Entity> {
    let mut entities: Vec<Entity> = read(text)
        .filter_map(|statement| match statement.unwrap() {
            Statement::Entity(entity) => Some(entity),
            Statement::Header(_) | Statement::Extra(_) => None,
        })
        .collect();
    entities.sort_by_key(|entity| entity.number);
    entities
}

fn load_all(db: &Db, text: &str) -> Design {
    wait_for(load(db, read(text), "house", How::New, async |_| Ok(()), |_| {})).unwrap().design
}

fn dumped(db: &Db, design: &Design) -> String {
    let mut parts = Vec::new();
    wait_for(dump_in_parts(db, design, &mut parts, |_| {})).unwrap();
    let at_once = wait_for(db.transact_async(async |mut tx| {
        let mut out = Vec::new();
        dump(&mut tx, design, &mut out, |_| {}).await?;
        Ok(out)
    }));
    assert_eq!(parts, at_once.unwrap());
    String::from_utf8(parts).unwrap()
}

fn walk_from(db: &Db, element: Ref<Object>) -> super::Walk {
    wait_for(db.transact_async(async |mut tx| walk(&mut tx, element).await)).unwrap()
}

#[test]
fn a_dump_is_the_file_that_was_loaded() {
    let (db, text) = (Db::in_memory().unwrap(), house(700));
    let design = load_all(&db, &text);
    let out = dumped(&db, &design);
    assert_eq!(entities(&out), entities(&text));
    assert_eq!(out.lines().nth(2), Some("FILE_SCHEMA(('IFC2X3'));"));
    assert!(out.contains("#10=IFCWINDOW('',$,'it''s window 0',#14);"));
    let names = wait_for(db.transact_async(async |mut tx| Design::names(&mut tx).await)).unwrap();
    assert_eq!(names, ["house"]);
    let other = wait_for(load(&db, read(&house(3)), "house", How::New, async |_| Ok(()), |_| {}));
    let other = other.unwrap_err().to_string();
    assert_eq!(other, "'house' is the name of a design from another file: choose another name, or replace it");
}

#[test]
fn an_interrupted_load_goes_on_where_it_was() {
    let (db, text) = (Db::in_memory().unwrap(), house(700));
    let mut strikes = 0;
    // Each attempt is struck down behind its first batch.
    let loaded = loop {
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let strike = |progress: Progress| assert_eq!(progress.phase, Phase::Read);
            wait_for(load(&db, read(&text), "house", How::New, async |_| Ok(()), strike))
        }));
        match attempt {
            Ok(loaded) => break loaded.unwrap(),
            Err(_) => strikes += 1,
        }
    };
    assert_eq!(strikes, 8, "four batches in each of two phases");
    assert_eq!(loaded.resumed_at, 3_506);
    let design = wait_for(db.transact_async(async |mut tx| Design::find(&mut tx, "house").await)).unwrap().unwrap();
    assert!(wait_for(db.transact_async(async |mut tx| design.is_whole(&mut tx).await)).unwrap());
    assert_eq!(entities(&dumped(&db, &design)), entities(&text));
}

#[test]
fn a_walk_finds_what_a_window_is_made_of_and_no_other_window() {
    let db = Db::in_memory().unwrap();
    let design = load_all(&db, &house(20));
    let elements = wait_for(db.transact_async(async |mut tx| design.elements(&mut tx).await)).unwrap();
    assert_eq!(elements.len(), 20);
    // The first window, its shape, its relations to properties, material and part, the set, the property, the handle.
    let first = walk_from(&db, elements[0]);
    assert_eq!((first.entities, first.properties.len()), (9, 1));
    assert_eq!(first.numbers, 10 + 14 + 13 + 12 + 11 + 4 + 1 + 5 + 6);
    let second = walk_from(&db, elements[1]);
    assert_eq!((second.entities, second.numbers), (7, 20 + 24 + 23 + 22 + 21 + 4 + 1));
}

#[test]
fn a_changed_property_is_the_only_change() {
    let (db, text) = (Db::in_memory().unwrap(), house(20));
    let design = load_all(&db, &text);
    let random = Random::new(1);
    let changed = db.transact_async(async |mut tx| {
        let window = pick(&mut tx, &design, &mut random.clone()).await?.expect("there are windows");
        let walk = walk(&mut tx, window).await?;
        let property = change(&mut tx, &walk, &mut random.clone()).await?.expect("it has a property");
        Result::Ok(tx.get(property).await?.entity.number)
    });
    let number = wait_for(changed).unwrap();
    let (before, after) = (entities(&text), entities(&dumped(&db, &design)));
    let differ: Vec<u64> = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| a.number).collect();
    assert_eq!(differ, [number]);
}

#[test]
fn a_design_without_windows_is_walked_from_what_nothing_refers_to() {
    let db = Db::in_memory().unwrap();
    let text = "ISO-10303-21;HEADER;ENDSEC;DATA;#1=A(#2,#3);#2=B(#3);#3=C();ENDSEC;END-ISO-10303-21;";
    let design = load_all(&db, text);
    let elements = wait_for(db.transact_async(async |mut tx| design.elements(&mut tx).await)).unwrap();
    assert_eq!(elements.len(), 1);
    assert_eq!(walk_from(&db, elements[0]).entities, 3);
}

fn found(db: &Db) -> Option<Design> {
    wait_for(db.transact_async(async |mut tx| Design::find(&mut tx, "house").await)).unwrap()
}

fn replace(db: &Db, text: &str, progress: impl FnMut(Progress)) -> Loaded {
    wait_for(load(db, read(text), "house", How::Replace, async |_| Ok(()), progress)).unwrap()
}

#[test]
fn a_revision_takes_the_place_of_a_design_as_a_whole() {
    let (db, old, new) = (Db::in_memory().unwrap(), house(300), house(310));
    let first = load_all(&db, &old);
    // At every step of the load, a reader finds one of the two as a whole.
    let loaded = replace(&db, &new, |_| {
        let design = found(&db).expect("there is one all the time");
        let text = dumped(&db, &design);
        assert!([300, 310].iter().any(|&windows| entities(&text) == entities(&house(windows))));
    });
    assert!(loaded.replaced);
    assert_eq!(entities(&dumped(&db, &loaded.design)), entities(&new));
    let (object, rest) = (first.state, first.entities.root());
    assert!(db.transact(|tx| tx.get(object)).is_err(), "the old one's objects are deleted");
    assert!(db.transact(|tx| tx.get_bytes(rest)).unwrap().is_none());
    assert!(!replace(&db, &new, |_| {}).replaced, "it is the same");
}

#[test]
fn an_interrupted_replacement_goes_on_where_it_was() {
    let (db, new) = (Db::in_memory().unwrap(), house(700));
    load_all(&db, &house(3));
    let mut strikes = 0;
    let loaded = loop {
        let strike = |progress: Progress| assert_eq!(progress.phase, Phase::Read);
        match catch_unwind(AssertUnwindSafe(|| replace(&db, &new, strike))) {
            Ok(loaded) => break loaded,
            Err(_) => strikes += 1,
        }
    };
    // Four batches in each of two phases, and what is left of the old one: its entities, and the rest.
    assert_eq!(strikes, 10);
    assert_eq!(entities(&dumped(&db, &loaded.design)), entities(&new));
}

#[test]
fn a_removal_goes_on_where_it_was() {
    let db = Db::in_memory().unwrap();
    load_all(&db, &house(700));
    let mut calls = 0;
    loop {
        calls += 1;
        let removal = wait_for(remove(&db, "house", |_| ControlFlow::Break(()))).unwrap();
        assert!(found(&db).is_none(), "from the first call on");
        if !removal.found {
            break;
        }
    }
    assert_eq!(calls, 6, "four batches, the rest, and that nothing is left");
    let again = load_all(&db, &house(2));
    assert_eq!(entities(&dumped(&db, &again)), entities(&house(2)));
}

/// A file of edition 3, with entities of two sections among each other, and more in each kind of section than one
/// transaction writes.
fn third_edition() -> String {
    let (mut anchors, mut even, mut odd) = (String::new(), String::new(), String::new());
    for i in 0..1_200 {
        writeln!(anchors, "<a{i}>=#1{{unit:'\\X2\\00B5\\X0\\m'}};").unwrap();
    }
    for i in 1..=2_300_u64 {
        let data = if i % 2 == 0 { &mut even } else { &mut odd };
        writeln!(data, "#{i}=A(#{},#9999,@1,#PI,'\\PE\\\\S\\=',$);", 1 + i % 7).unwrap();
    }
    format!(
        "ISO-10303-21;\nHEADER;\nFILE_SCHEMA(('IFC4','B'));\nENDSEC;\nANCHOR;\n{anchors}ENDSEC;\nREFERENCE;\n\
         #9999=<other.ifc#origin>;\n@1=<other.ifc#mass>;\nENDSEC;\nDATA('odd',('B'));\n{odd}ENDSEC;\n\
         DATA('even',('IFC4'));\n{even}ENDSEC;\nEND-ISO-10303-21;\nSIGNATURE\nMIIB\nENDSEC;\n"
    )
}

#[test]
fn all_sections_of_edition_3_come_back() {
    let (db, text) = (Db::in_memory().unwrap(), third_edition());
    let mut calls = 0;
    let loaded = loop {
        calls += 1;
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let strike = |progress: Progress| assert_eq!(progress.phase, Phase::Read);
            wait_for(load(&db, read(&text), "house", How::New, async |_| Ok(()), strike))
        }));
        if let Ok(loaded) = attempt {
            break loaded.unwrap();
        }
    };
    assert_eq!(calls, 7, "three batches in each of two phases, and the last");
    assert_eq!(dumped(&db, &loaded.design), text);
    assert_eq!(loaded.design.schemas(), ["B", "IFC4"]);
    assert!(loaded.missing.is_empty());
    let removal = wait_for(remove(&db, "house", |_| ControlFlow::Continue(()))).unwrap();
    assert!(removal.is_complete && removal.entities == 2_300);
    let left = [loaded.design.extras.unwrap().id(), loaded.design.sections.unwrap().id()];
    for map in left {
        assert!(db.transact(|tx| tx.get_bytes(Ref::<[u8]>::new(map, 0))).unwrap().is_none());
    }
}

#[test]
fn references_to_missing_entities_are_refused_or_settled() {
    let text = "ISO-10303-21;\nHEADER;\nENDSEC;\nANCHOR;\n<a>=#98;\nENDSEC;\nDATA;\n#1=A(#99,(#2,#97));\n#2=B();\nENDSEC;\n\
        END-ISO-10303-21;\n";
    let load = |dangling| {
        let db = Db::in_memory().unwrap();
        let options = LoadOptions { how: How::New, dangling };
        let loaded = wait_for(load(&db, read(text), "house", options, async |_| Ok(()), |_| {}))?;
        let missing: Vec<u64> = loaded.missing.iter().copied().collect();
        assert_eq!(missing, [97, 98, 99]);
        Ok::<_, objects::Error>(dumped(&db, &loaded.design))
    };
    assert_eq!(load(Dangling::Keep).unwrap(), text);
    let nulls = text.replace("#99", "$").replace("#98", "$").replace("#97", "$");
    assert_eq!(load(Dangling::Null).unwrap(), nulls);
    let refused = load(Dangling::Refuse).unwrap_err().to_string();
    assert_eq!(refused, "#1 refers to #99, which the file does not have, nor 2 others that it refers to");
}
