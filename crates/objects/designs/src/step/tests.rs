//! Files in, statements out, and back again.

use super::*;
use crate::{Entity, Extra, Part, Text, Value, write_entity};
use proptest::prelude::*;
use std::io::{Cursor, Write as _};
use std::path::Path;

fn read(text: impl Into<Vec<u8>>) -> Result<Vec<Statement>, StepError> {
    Reader::new(Box::new(Cursor::new(text.into())), None).collect()
}

fn data(statements: &str) -> String {
    String::from_utf8(data_of(statements.as_bytes())).unwrap()
}

fn data_of(statements: &[u8]) -> Vec<u8> {
    [b"ISO-10303-21;\nHEADER;\nENDSEC;\nDATA;\n", statements, b"\nENDSEC;\nEND-ISO-10303-21;\n"].concat()
}

fn entities(text: impl AsRef<[u8]>) -> Vec<Entity> {
    let statements = read(data_of(text.as_ref())).unwrap_or_else(|error| panic!("{error}"));
    statements
        .into_iter()
        .filter_map(|statement| match statement {
            Statement::Entity(entity) => Some(entity),
            Statement::Extra(Extra::Data(_)) => None,
            other => panic!("expected an entity, got {other:?}"),
        })
        .collect()
}

fn written(entity: &Entity) -> Vec<u8> {
    let mut out = Vec::new();
    write_entity(&mut out, entity).unwrap();
    out
}

#[test]
fn every_kind_of_value_is_read_and_written_as_it_was() {
    let line = "#7=DOOR('it''s \\\\ a door',#5,$,*,(1.,2.5E-1,-3,+4,007),.T.,\"0F\",LENGTH(0.9),((),(#1,(#2))));\n";
    let [entity] = &entities(line)[..] else { panic!("one entity") };
    assert_eq!(entity.number, 7);
    assert_eq!(entity.parts[0].values[0], Value::Text("it's \\ a door".into()));
    assert_eq!(written(entity), line.as_bytes());
    let mut refs = Vec::new();
    entity.for_each_ref(|to| refs.push(*to));
    assert_eq!(refs, [5, 1, 2]);
}

#[test]
fn complex_instances_comments_and_line_breaks() {
    let [entity] = &entities("#1 /* ; ' */ = (\n A(1) /**/ B_2($)\n);")[..] else { panic!("one entity") };
    assert_eq!(written(entity), b"#1=(A(1)B_2($));\n");
    assert!(entity.is_a("B_2") && !entity.is_a("C"));
}

/// The text of a file's bytes, which come out again as they were.
#[track_caller]
fn text_of(spelling: &[u8]) -> String {
    let statement = [b"#1=A('", spelling, b"');\n"].concat();
    let file = [b"ISO-10303-21;HEADER;ENDSEC;DATA;", &*statement, b"ENDSEC;END-ISO-10303-21;"].concat();
    let statements = read(file).unwrap_or_else(|error| panic!("{error}"));
    let [Statement::Extra(_), Statement::Entity(entity)] = &statements[..] else { panic!("{statements:?}") };
    let mut out = Vec::new();
    write_entity(&mut out, entity).unwrap();
    assert_eq!(out, statement);
    let [Value::Text(text)] = &entity.parts[0].values[..] else { panic!("a text") };
    text.to_string()
}

#[test]
fn texts_are_decoded_and_keep_their_spelling() {
    assert_eq!(text_of(b"K\\S\\|che; \\X\\FC \\X2\\00E4D83DDE00\\X0\\"), "Küche; ü ä😀");
    assert_eq!(text_of(b"nach \\S\\' 3 Abs. 2"), "nach § 3 Abs. 2");
    assert_eq!(text_of(b"\\PE\\\\S\\=\\S\\5\\S\\b"), "НЕт");
    assert_eq!(text_of("Küche".as_bytes()), "Küche");
    assert_eq!(text_of(b"K\xfcche"), "Küche");
    assert_eq!(text_of(b"\\Q\\ stays; C:\\temp"), "\\Q\\ stays; C:\\temp");
    assert_eq!(text_of(b"two\nlines \\N\\and a half"), "two\nlines and a half");
}

#[test]
fn edition_3_has_more_sections() {
    let sections = "ANCHOR;\n<a;'b>=(#1,<x.stp#y>,@2){tag:$}{other:'text'};\nENDSEC;\n\
        REFERENCE;\n#10=<other.ifc;v=1#origin>;\n@11=<other.ifc#mass>;\nENDSEC;\n\
        DATA('one',('IFC4'));\n#1=A(#10,@11,#PI,@E,\\N\\'\u{f6}');\nENDSEC;\nDATA;\nENDSEC;\nEND-ISO-10303-21;\n\
        SIGNATURE\nMIIB+/8=\nENDSEC;\nSIGNATURE;\nAAAA\nENDSEC;\n\0\0\0";
    let statements = read(format!("ISO-10303-21;\nHEADER;\nENDSEC;\n{sections}")).unwrap();
    let written: String = statements
        .iter()
        .map(|statement| {
            let mut out = Vec::new();
            match statement {
                Statement::Extra(extra) => crate::write_extra(&mut out, extra).unwrap(),
                Statement::Entity(entity) => write_entity(&mut out, entity).unwrap(),
                Statement::Header(_) => {}
            }
            String::from_utf8(out).unwrap()
        })
        .collect();
    let expected = "<a;'b>=(#1,<x.stp#y>,@2){tag:$}{other:'text'};\n#10=<other.ifc;v=1#origin>;\n\
        @11=<other.ifc#mass>;\nDATA('one',('IFC4'));\n#1=A(#10,@11,#PI,@E,'\u{f6}');\nDATA;\n\
        SIGNATURE\nMIIB+/8=\nENDSEC;\nSIGNATURE;\nAAAA\nENDSEC;\n";
    assert_eq!(written, expected);
}

fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn read_archive(bytes: &[u8]) -> Result<Reader, OpenError> {
    super::read(Box::new(Cursor::new(bytes.to_vec())), Path::new("a.stpz"))
}

#[test]
fn the_design_in_an_archive_is_known_by_its_name_or_its_contents() {
    for name in ["a.spf", "MODEL.IFC", "without a suffix"] {
        let archive = archive(&[("notes", "ISO-9001"), (name, WHOLE)]);
        let statements: Result<Vec<_>, _> = read_archive(&archive).unwrap().collect();
        assert_eq!(statements.unwrap().len(), 8);
        // A damaged archive is an error at some point, and never a panic.
        for end in (0..archive.len()).step_by(7) {
            let whole = read_archive(&archive[..end]).is_ok_and(|reader| reader.into_iter().all(|it| it.is_ok()));
            assert!(!whole, "the first {end} bytes");
        }
    }
    let error = read_archive(&archive(&[("notes", "ISO-9001")])).unwrap_err().to_string();
    assert!(error.contains("a.stpz is an archive without a design"), "{error}");
}

#[test]
fn a_design_is_known_by_its_beginning() {
    for text in ["ISO-10303-21;", "\u{feff} \n/* a * / ** comment */ /**/ISO-10303-21;", "PK\u{3}\u{4}..."] {
        assert_eq!(begins_like_a_design(text.as_bytes()), Some(true), "{text}");
        let cut = (0..text.len().min(4)).find(|&at| begins_like_a_design(&text.as_bytes()[..at]).is_some());
        assert_eq!(cut, None, "{text}");
    }
    for text in ["{\"a\": 1}", "[", "7", "// no comment", "PKx", "ISO-9", "\u{feff}{}"] {
        assert_eq!(begins_like_a_design(text.as_bytes()), Some(false), "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let error = |text: String| read(text).unwrap_err().to_string();
    assert_eq!(error(data("#1=A(1,\n  2;")), "line 6, column 4: expected ',' or ')', got the end of the statement");
    assert_eq!(error(data("#1=A(1)\n #2=B();")), "line 6, column 4: expected the end of the statement, got '=B()'");
    assert_eq!(error(data("A(1);")), "line 5, column 1: expected an entity or ENDSEC, got 'A(1)'");
    assert!(error("{\"json\": 1}".to_owned()).starts_with("expected an ISO 10303-21 file"));
    assert!(error(String::new()).starts_with("expected an ISO 10303-21 file"));
    assert!(error("ISO-10303-21;\nHEADER;\n".to_owned()).ends_with("is not whole"));
    let deep = format!("#1=A({}1{});", "(".repeat(100), ")".repeat(100));
    assert!(error(data(&deep)).contains("fewer lists"));
}

/// A text of any bytes, if a string ends where they do.
fn spelling(bytes: &[u8]) -> Option<Text> {
    let (mut place, mut closed) = (crate::Place::Plain, false);
    for &byte in bytes {
        let closes = place.is_closed_by(byte);
        if closed && !closes {
            return None;
        }
        closed = closes && !closed;
    }
    (!closed && place != crate::Place::Shifted).then(|| Text::from_spelling(bytes))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(Value::Derived),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| Value::Number(format!("{f:E}"))),
        proptest::collection::vec(any::<u8>(), 0..40)
            .prop_filter_map("it ends", |bytes| spelling(&bytes))
            .prop_map(Value::Text),
        any::<String>().prop_map(|text| Value::Text(text.into())),
        "[A-Z]{1,8}".prop_map(Value::Enumeration),
        any::<u64>().prop_map(Value::Ref),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            ("[A-Z]{1,8}", inner).prop_map(|(kind, value)| Value::Typed(kind, Box::new(value))),
        ]
    })
}

proptest! {
    /// A design that is written is read as the same, whatever characters it holds.
    #[test]
    fn written_entities_read_back(number: u64, values in proptest::collection::vec(value(), 0..6)) {
        let entity = Entity { number, parts: vec![Part { kind: "A".to_owned(), values }] };
        // A number in scientific notation may be a whole number's text after all, so texts are compared.
        let text = written(&entity);
        let again = entities(&text);
        prop_assert_eq!(written(&again[0]), text);
    }

    /// Bytes from outside are a file or an error, never a panic: a whole file that is cut, and whose bytes are changed.
    #[test]
    fn damaged_files_never_panic(cut: usize, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut % bytes.len() / 2);
        let _ = begins_like_a_design(&bytes);
        for statement in read(bytes).into_iter().flatten() {
            if let Statement::Entity(entity) = statement {
                let _ = entity.to_string();
            }
        }
    }
}

/// A file with something of everything.
const WHOLE: &str = "ISO-10303-21;HEADER;FILE_SCHEMA(('IFC4'));ENDSEC;ANCHOR;<a>=(#1,$,<u>){t:1};ENDSEC;\
    REFERENCE;#9=<x#y>;@8=<z>;ENDSEC;DATA('d',('IFC4'));#1=A('x\\X2\\00E4\\X0\\\\PE\\\\S\\'',(#2,.E.),\"0F\",B(1.5));\
    /* c */#2=(C()D($,*,#PI,@8));ENDSEC;END-ISO-10303-21;SIGNATURE;TUlJ ENDSEC;";
