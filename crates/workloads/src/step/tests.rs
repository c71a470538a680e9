//! Files in, statements out, and back again.

use super::*;
use proptest::prelude::*;
use std::io::Cursor;

fn read(text: impl Into<Vec<u8>>) -> Result<Vec<Statement>, StepError> {
    Reader::new(Box::new(Cursor::new(text.into())), None).collect()
}

fn data(statements: &str) -> String {
    format!("ISO-10303-21;\nHEADER;\nENDSEC;\nDATA;\n{statements}\nENDSEC;\nEND-ISO-10303-21;\n")
}

fn entities(text: &str) -> Vec<Entity> {
    let statements = read(data(text)).unwrap_or_else(|error| panic!("{error}"));
    statements
        .into_iter()
        .map(|statement| match statement {
            Statement::Entity(entity) => entity,
            Statement::Header(part) => panic!("expected an entity, got {part:?}"),
        })
        .collect()
}

fn written(entity: &Entity) -> String {
    let mut out = Vec::new();
    write_entity(&mut out, entity).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_kind_of_value_is_read_and_written_as_it_was() {
    let line = "#7=DOOR('it''s \\\\ a door',#5,$,*,(1.,2.5E-1,-3,+4,007),.T.,\"0F\",LENGTH(0.9),((),(#1,(#2))));\n";
    let [entity] = &entities(line)[..] else { panic!("one entity") };
    assert_eq!(entity.number, 7);
    assert_eq!(entity.parts[0].values[0], Value::Text("it's \\ a door".to_owned()));
    assert_eq!(written(entity), line);
    let mut refs = Vec::new();
    entity.for_each_ref(|to| refs.push(*to));
    assert_eq!(refs, [5, 1, 2]);
}

#[test]
fn complex_instances_comments_and_line_breaks() {
    let [entity] = &entities("#1 /* ; ' */ = (\n A(1) /**/ B_2($)\n);")[..] else { panic!("one entity") };
    assert_eq!(written(entity), "#1=(A(1)B_2($));\n");
    assert!(entity.is_a("B_2") && !entity.is_a("C"));
}

#[test]
fn strings_lose_their_encodings_and_get_them_back() {
    let text = |line: &str| match &entities(line)[0].parts[0].values[0] {
        Value::Text(text) => text.clone(),
        other => panic!("expected a text, got {other:?}"),
    };
    assert_eq!(text("#1=A('K\\S\\|che; \\X\\FC \\X2\\00E4D83DDE00\\X0\\ \\X4\\0001F600\\X0\\');"), "Küche; ü ä😀 😀");
    assert_eq!(text("#1=A('Küche');"), "Küche");
    assert_eq!(text("#1=A('\\Q\\ stays');"), "\\Q\\ stays");
    let latin = data("#1=A('K?');").into_bytes().into_iter().map(|byte| if byte == b'?' { 0xfc } else { byte });
    let statements = read(latin.collect::<Vec<_>>()).unwrap();
    let [Statement::Entity(entity)] = &statements[..] else { panic!("one entity") };
    assert_eq!(entity.parts[0].values, [Value::Text("Kü".to_owned())]);
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

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(Value::Derived),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| Value::Number(format!("{f:E}"))),
        any::<String>().prop_map(Value::Text),
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

    /// Bytes from outside are a file or an error, never a panic.
    #[test]
    fn damaged_files_never_panic(at in 0..120usize, byte: u8) {
        let mut bytes = data("#1=A('x\\X2\\00E4\\X0\\',(#2,.E.),\"0F\",B(1.5));/* c */#2=(C()D($));").into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(bytes);
    }
}
