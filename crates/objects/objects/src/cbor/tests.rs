//! Values that are written can be read again, by us and by other decoders; and reading ends, whatever the bytes are.

use super::*;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

fn write<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    value.serialize(&mut writer)?;
    Ok(writer.into_bytes())
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut reader = Reader::new(bytes);
    let value = T::deserialize(&mut reader)?;
    assert!(reader.rest().is_empty(), "{:?} is left over", reader.rest());
    Ok(value)
}

#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    assert_eq!(&read::<T>(&write(value).unwrap()).unwrap(), value);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Line(i8, i8),
    Box { width: u16, height: Option<u16> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Meters(f32);

type Options = (Option<u8>, Option<Option<u8>>, Option<Option<Option<()>>>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    yes: bool,
    signed: (i8, i16, i32, i64, i128),
    unsigned: (u8, u16, u32, u64, u128),
    floats: (f32, f64),
    letter: char,
    text: String,
    bytes: Vec<u8>,
    fixed: [u8; 5],
    unit: ((), Unit),
    meters: Meters,
    options: Options,
    map: BTreeMap<i32, Vec<String>>,
    shapes: Vec<Shape>,
}

/// A value of types that CBOR has a form for.
type Simple<K> = BTreeMap<K, (String, Vec<i64>, Shape, bool, Option<u64>)>;

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Point),
        (-1e9..1e9).prop_map(Shape::Circle),
        any::<(i8, i8)>().prop_map(|(x, y)| Shape::Line(x, y)),
        any::<(u16, Option<u16>)>().prop_map(|(width, height)| Shape::Box { width, height }),
    ]
}

fn everything() -> impl Strategy<Value = Everything> {
    let numbers = (any::<bool>(), any::<(i8, i16, i32, i64, i128)>(), any::<(u8, u16, u32, u64, u128)>());
    let texts = (any::<char>(), ".{0,30}", any::<Vec<u8>>(), any::<[u8; 5]>());
    let options = any::<Options>();
    let map = proptest::collection::btree_map(any::<i32>(), proptest::collection::vec(".{0,3}", 0..3), 0..5);
    let rest = (options, map, proptest::collection::vec(shapes(), 0..6), -1e9..1e9_f64);
    (numbers, texts, rest).prop_map(|((yes, signed, unsigned), (letter, text, bytes, fixed), rest)| {
        let (options, map, shapes, float) = rest;
        let (floats, meters, unit) = ((float as f32, float), Meters(float as f32), ((), Unit));
        Everything { yes, signed, unsigned, floats, letter, text, bytes, fixed, unit, meters, options, map, shapes }
    })
}

proptest! {
    #[test]
    fn a_written_value_is_read(value in everything()) {
        let bytes = write(&value).unwrap();
        prop_assert_eq!(read::<Everything>(&bytes).unwrap(), value);
        // A reader that skips the value sees its end.
        let mut reader = Reader::new(&bytes);
        serde::de::IgnoredAny::deserialize(&mut reader).unwrap();
        prop_assert!(reader.rest().is_empty());
    }

    /// For any bytes, reading comes to an end, and takes no room that the bytes do not pay for.
    #[test]
    fn any_bytes_are_a_value_or_none(bytes: Vec<u8>) {
        let _ = read_some::<Everything>(&bytes);
        let _ = read_some::<serde_json::Value>(&bytes);
        let _ = read_some::<Vec<Shape>>(&bytes);
        let _ = describe(&bytes);
    }

    /// The same, one byte away from a value.
    #[test]
    fn damaged_bytes_are_a_value_or_none(value in everything(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut bytes = write(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(if cut { at } else { bytes.len() });
        let _ = read_some::<Everything>(&bytes);
        let _ = read_some::<serde_json::Value>(&bytes);
        let _ = read_some::<serde::de::IgnoredAny>(&bytes);
        let _ = describe(&bytes);
    }

    /// Another implementation reads the same, but for what CBOR has no word for.
    #[test]
    fn others_read_it_too(text in ".{0,40}", numbers: Vec<i64>, shape in shapes(), float: f64, yes: bool) {
        let value: Simple<&str> = BTreeMap::from([("text", (text, numbers, shape, yes, Some(float.to_bits())))]);
        let bytes = write(&value).unwrap();
        let read: Simple<String> = ciborium::from_reader(&bytes[..]).unwrap();
        prop_assert_eq!(read.get("text"), value.get("text"));
        let mut theirs = Vec::new();
        ciborium::into_writer(&value, &mut theirs).unwrap();
        prop_assert_eq!(theirs, bytes);
    }
}

fn read_some<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    T::deserialize(&mut Reader::new(bytes))
}

/// The examples of RFC 8949, appendix A, and what is our own.
#[test]
fn the_layout_is_the_documented_one() {
    fn golden<T: Serialize>(value: &T, hex: &str) {
        let bytes = write(value).unwrap();
        let expected: Vec<u8> =
            hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect();
        assert_eq!(bytes, expected, "{hex}");
    }
    golden(&0, "00");
    golden(&23, "17");
    golden(&24, "1818");
    golden(&1000, "1903e8");
    golden(&1_000_000, "1a000f4240");
    golden(&1_000_000_000_000_u64, "1b000000e8d4a51000");
    golden(&u64::MAX, "1bffffffffffffffff");
    golden(&18_446_744_073_709_551_616_u128, "c249010000000000000000");
    golden(&-18_446_744_073_709_551_616_i128, "3bffffffffffffffff");
    golden(&-18_446_744_073_709_551_617_i128, "c349010000000000000000");
    golden(&-1, "20");
    golden(&-1000, "3903e7");
    golden(&1.1, "fb3ff199999999999a");
    golden(&100_000.0_f32, "fa47c35000");
    golden(&(false, true, ()), "83f4f5f6");
    golden(&"ü", "62c3bc");
    golden(&'水', "63e6b0b4");
    golden(&[1, 2, 3], "83010203");
    golden(&BTreeMap::from([("a", 1)]), "a1616101");
    golden(&Shape::Point, "65506f696e74");
    golden(&Shape::Line(1, -1), "a1644c696e65820120");
    // Bytes in a row.
    golden(&[1_u8, 2, 3], "83010203");
    golden(&[1_u8, 2, 3, 255], "d84044010203ff");
    golden(&(1_u8, 2_u8, 3_u8, 255_u16), "8401020318ff");
    // Options.
    golden(&Some(7), "07");
    golden(&None::<Option<u8>>, "f6");
    golden(&Some(None::<u8>), "da74686f72f6");
    golden(&Some(Some(None::<u8>)), "da74686f72da74686f72f6");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sparse {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    note: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    tags: Vec<u8>,
    count: u8,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Bytes(Vec<u8>),
    Text(String),
    Sparse(Sparse),
    Reference { to: crate::Ref<u8> },
    Address(std::net::IpAddr),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    One { reference: crate::Ref<u8>, bytes: Vec<u8> },
    Other(Sparse),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    own: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

/// Types that only a self-describing format can decode.
#[test]
fn types_that_decide_as_they_read_are_read() {
    let reference = crate::Ref::new(types::ObjectId::root(3), 9);
    let sparse = |note: Option<&str>, tags: &[u8]| Sparse { note: note.map(Into::into), tags: tags.into(), count: 1 };
    check(&sparse(None, &[]));
    check(&sparse(Some("x"), &[1, 2, 3, 4]));
    check(&vec![
        Untagged::Number(-3),
        Untagged::Bytes(vec![7; 9]),
        Untagged::Text("t".into()),
        Untagged::Sparse(sparse(None, &[5])),
        Untagged::Reference { to: reference },
    ]);
    // Of two variants that take the same form the first one is read, as in every format.
    let bytes = write(&Untagged::Address([127, 0, 0, 1].into())).unwrap();
    assert_eq!(read::<Untagged>(&bytes), Ok(Untagged::Text("127.0.0.1".into())));
    check(&Tagged::Other(sparse(None, &[])));
    let rest = BTreeMap::from([("z".to_owned(), serde_json::json!([1, {"deep": null}, "text", 2.5, true]))]);
    check(&Tagged::One { reference, bytes: vec![1; 40] });
    check(&Flat { own: 1, rest });
    check(&serde_json::json!({"a": [1, -2, 3.5, "x", null, false, {"b": {}}], "big": u64::MAX}));
}

#[test]
fn a_wrong_form_is_named_with_its_place() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Order {
        lines: Vec<Line>,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Line {
        price: u32,
    }
    let error = |value: serde_json::Value| read::<Order>(&write(&value).unwrap()).unwrap_err().to_string();
    let text = error(serde_json::json!({"lines": [{"price": "much"}]}));
    assert_eq!(text, "in lines.price: invalid type: string \"much\", expected u32");
    assert_eq!(error(serde_json::json!({"lines": [{}]})), "in lines: missing field `price`");
    assert_eq!(error(serde_json::json!([[1]])), "it is a list of 1, not a struct Order");
    assert_eq!(error(serde_json::json!({"lines": [-1]})), "in lines: it is a whole number, not a struct Line");
    let words = [
        (write(&-1).unwrap(), "a whole number"),
        (write(&1.5).unwrap(), "a number"),
        (write(&"x").unwrap(), "a text"),
        (write(&vec![1_u8; 5]).unwrap(), "bytes"),
        (write(&[1, 2]).unwrap(), "a list of 2"),
        (write(&()).unwrap(), "nothing (a unit, or None)"),
        (write(&Some(None::<u8>)).unwrap(), "an option in an option"),
        (write(&BTreeMap::from([(1, 1)])).unwrap(), "a map"),
        (write(&BTreeMap::from([("a", 1), ("b", 2)])).unwrap(), "a struct or map with a, b"),
        (vec![0xbf], "a map"),
        (vec![0xff], "nothing readable"),
    ];
    for (bytes, word) in words {
        assert_eq!(describe(&bytes), word);
    }
}

#[test]
fn nesting_is_bounded_at_both_ends() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nested(Vec<Nested>);
    let nested = |depth| (1..depth).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
    check(&nested(DEPTH_MAX));
    let deeper = write(&nested(DEPTH_MAX + 1)).unwrap_err().to_string();
    assert_eq!(deeper, "it is nested more than 200 deep");
    for first in [0x81, 0x9f, 0xbf, 0xa1] {
        let bytes = vec![first; 1_000_000];
        assert!(read_some::<serde_json::Value>(&bytes).is_err());
        assert!(read_some::<serde::de::IgnoredAny>(&bytes).is_err());
        assert!(read_some::<Nested>(&bytes).is_err());
    }
    let tags: Vec<u8> = SOME_HEAD.iter().copied().cycle().take(1_000_000).collect();
    assert!(read_some::<serde_json::Value>(&tags).is_err());
    assert!(read_some::<serde::de::IgnoredAny>(&tags).is_err());
    assert!(!describe(&tags).is_empty());
}

#[test]
fn a_length_that_lies_is_refused() {
    struct Liar;
    impl Serialize for Liar {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq;
            let mut seq = serializer.serialize_seq(Some(7))?;
            seq.serialize_element(&1)?;
            seq.end()
        }
    }
    assert_eq!(write(&Liar).unwrap_err().to_string(), "its Serialize announces 7 elements and gives 1");
    // A thousand million texts are announced, and none is there.
    assert!(read_some::<Vec<String>>(&[0x9a, 0x3b, 0x9a, 0xca, 0]).is_err());
    assert!(read_some::<String>(&[0x7b, 255, 255, 255, 255, 255, 255, 255, 255]).is_err());
}
