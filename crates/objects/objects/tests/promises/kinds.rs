//! Values and maps know what they are: types change, and nothing is considered something else.

use objects::{Anywhere, Db, Error, Key, Map, Ref, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    mass: u32,
}

/// Of which every field has a default: its form is that of all structs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    number: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Count(u64);

fn wheel() -> Part {
    Part { name: "wheel".into(), mass: 12 }
}

#[track_caller]
fn refused<T>(result: Result<T>, ends: &str) {
    match result {
        Err(error @ Error::WrongKind { .. }) => assert!(error.to_string().ends_with(ends), "{error}"),
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was read"),
    }
}

fn read_as<T: DeserializeOwned>(db: &Db, object: Ref<Part>) -> Result<T> {
    db.transact(|tx| tx.get(object.cast::<T>()))
}

#[test]
fn a_stored_value_is_taken_for_no_other_kind() {
    let db = Db::in_memory().unwrap();
    let part = db.transact(|tx| tx.create(Anywhere, &wheel())).unwrap();
    refused(read_as::<i64>(&db, part), "is a value of type Part, and i64 was asked for");
    refused(read_as::<u64>(&db, part), "is a value of type Part, and u64 was asked for");
    refused(read_as::<String>(&db, part), "is a value of type Part, and alloc::string::String was asked for");
    refused(read_as::<()>(&db, part), "is a value of type Part, and () was asked for");
    refused(read_as::<Order>(&db, part), "is a value of type Part, and promises::kinds::Order was asked for");
    refused(db.transact(|tx| tx.get_bytes(part)), "is a value of type Part, and bytes was asked for");
    refused(db.transact(|tx| tx.read(part, <[u8]>::len)), "is a value of type Part, and bytes was asked for");
    refused(db.transact(|tx| Map::<u8, u8>::new(part.cast()).get(tx, &1)), "objects::map::Map<u8, u8> was asked for");
    assert_eq!(read_as::<Part>(&db, part).unwrap(), wheel());
    let any = read_as::<serde_json::Value>(&db, part).unwrap();
    assert_eq!(any, serde_json::json!({"name": "wheel", "mass": 12}));
}

/// A newtype's form is that of what it wraps.
#[test]
fn a_number_with_a_name_is_no_number() {
    let db = Db::in_memory().unwrap();
    let count = db.transact(|tx| tx.create(Anywhere, &Count(3))).unwrap();
    refused(db.transact(|tx| tx.get(count.cast::<u64>())), "is a value of type Count, and u64 was asked for");
    let number = db.transact(|tx| tx.create(Anywhere, &3_u64)).unwrap();
    assert_eq!(db.transact(|tx| tx.get(number.cast::<Count>())).unwrap(), Count(3), "a number may get a name");
    refused(
        db.transact(|tx| tx.get(number.cast::<String>())),
        "is a whole number, and alloc::string::String was asked for: invalid type: integer `3`, expected a string",
    );
    refused(
        db.transact(|tx| tx.get(number.cast::<bool>())),
        "is a whole number, and bool was asked for: invalid type: integer `3`, expected a boolean",
    );
}

#[test]
fn bytes_and_maps_are_no_values() {
    let db = Db::in_memory().unwrap();
    let bytes = db.transact(|tx| tx.create_bytes(Anywhere, &[0x60, 7])).unwrap();
    refused(db.transact(|tx| tx.get(bytes.cast::<u8>())), "is bytes, and u8 was asked for");
    let map: Map<u8, u8> = db.transact(|tx| tx.map("map")).unwrap();
    refused(db.transact(|tx| tx.get(map.root().cast::<u8>())), "is a map, and u8 was asked for");
    refused(db.transact(|tx| tx.get_bytes(map.root())), "is a map, and bytes was asked for");
    refused(db.transact(|tx| tx.put(map.root().cast(), &1_u8)), "is a map, and an object to overwrite was asked for");
    refused(db.transact(|tx| tx.put_bytes(map.root(), &[1])), "is a map, and an object to overwrite was asked for");
    refused(db.transact(|tx| tx.root::<u8>("map")), "'map' is a map, and an object was asked for");
    db.transact(|tx| tx.set_root("bytes", bytes.cast::<()>())).unwrap();
    refused(db.transact(|tx| tx.map::<u8, u8>("bytes")), "'bytes' is an object, and a map was asked for");
    // Bytes may become a value, by a reference that was made one.
    db.transact(|tx| tx.put(bytes.cast(), &wheel())).unwrap();
    assert_eq!(db.transact(|tx| tx.get(bytes.cast::<Part>())).unwrap(), wheel());
}

#[test]
fn a_large_value_knows_what_it_is() {
    let db = Db::in_memory().unwrap();
    let large = Part { name: "x".repeat(200_000), mass: 1 };
    let part = db.transact(|tx| tx.create(Anywhere, &large)).unwrap();
    assert_eq!(read_as::<Part>(&db, part).unwrap(), large);
    refused(read_as::<Order>(&db, part), "is a value of type Part, and promises::kinds::Order was asked for");
    refused(db.transact(|tx| tx.get_bytes(part)), "is a large value, and bytes was asked for");
    let map: Map<u8, Part> = db.transact(|tx| tx.map("parts")).unwrap();
    db.transact(|tx| map.insert(tx, &1, &large)).unwrap();
    assert_eq!(db.transact(|tx| map.get(tx, &1)).unwrap(), Some(large));
}

fn opened_as<K: Key, V: DeserializeOwned>(db: &Db, ends: &str) {
    refused(db.transact(|tx| tx.map::<K, V>("parts")), ends);
    refused(db.transact(|tx| tx.find_map::<K, V>("parts")), ends);
}

/// Empty or not.
#[test]
fn a_map_is_opened_by_its_own_types() {
    let db = Db::in_memory().unwrap();
    let parts: Map<(String, u32), Part> = db.transact(|tx| tx.map("parts")).unwrap();
    let stored = "'parts' is a map with keys of type (String, u32) and values of type Part, and objects::map::Map";
    for _ in 0..2 {
        opened_as::<u32, Part>(&db, &format!("{stored}<u32, promises::kinds::Part> was asked for"));
        opened_as::<(String, u64), Part>(
            &db,
            &format!("{stored}<(alloc::string::String, u64), promises::kinds::Part> was asked for"),
        );
        opened_as::<(String, u32), Order>(
            &db,
            &format!("{stored}<(alloc::string::String, u32), promises::kinds::Order> was asked for"),
        );
        opened_as::<(String, u32), u8>(&db, &format!("{stored}<(alloc::string::String, u32), u8> was asked for"));
        let other: Map<u64, Part> = Map::new(parts.root().cast());
        refused(db.transact(|tx| other.get(tx, &1)), "Map<u64, promises::kinds::Part> was asked for");
        refused(db.transact(|tx| other.insert(tx, &1, &wheel())), "Map<u64, promises::kinds::Part> was asked for");
        refused(db.transact(|tx| other.remove(tx, &1)), "Map<u64, promises::kinds::Part> was asked for");
        refused(db.transact(|tx| other.iter().next(tx)), "Map<u64, promises::kinds::Part> was asked for");
        let insert = |n: u32| db.transact(|tx| parts.insert(tx, &(n.to_string(), n), &wheel()));
        // Enough that the root becomes an inner node.
        (0..300).try_for_each(|n| insert(n).map(drop)).unwrap();
    }
    db.transact(|tx| tx.map::<(String, u32), Part>("parts")).unwrap();
    db.transact(|tx| tx.map::<(String, u32), serde_json::Value>("parts")).unwrap();
}

#[test]
fn keys_of_the_same_bytes_are_other_keys() {
    let db = Db::in_memory().unwrap();
    let texts: Map<String, u8> = db.transact(|tx| tx.map("texts")).unwrap();
    db.transact(|tx| texts.insert(tx, "a", &1)).unwrap();
    let error = db.transact(|tx| tx.map::<Vec<u8>, u8>("texts")).unwrap_err().to_string();
    assert_eq!(
        error,
        "'texts' is a map with keys of type String, and objects::map::Map<alloc::vec::Vec<u8>, u8> was asked for"
    );
}

mod changed {
    use super::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Part {
        #[serde(alias = "name")]
        pub(super) title: String,
        #[serde(default)]
        pub(super) tags: Vec<String>,
        pub(super) note: Option<u8>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename = "Part")]
    pub(super) struct Component {
        pub(super) name: String,
        pub(super) mass: f64,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(from = "super::Part", into = "super::Part")]
    pub(super) struct Converted(pub(super) String);
}

impl From<Part> for changed::Converted {
    fn from(part: Part) -> Self {
        Self(part.name)
    }
}

impl From<changed::Converted> for Part {
    fn from(changed::Converted(name): changed::Converted) -> Self {
        Self { name, mass: 0 }
    }
}

impl Clone for changed::Converted {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Alone, in a map, and forwards: the reader has the other fields.
#[test]
fn types_change() {
    let db = Db::in_memory().unwrap();
    let part = db.transact(|tx| tx.create(Anywhere, &wheel())).unwrap();
    let map: Map<u8, Part> = db.transact(|tx| tx.map("parts")).unwrap();
    db.transact(|tx| map.insert(tx, &1, &wheel())).unwrap();
    let now = changed::Part { title: "wheel".into(), tags: Vec::new(), note: None };
    assert_eq!(read_as::<changed::Part>(&db, part).unwrap(), now);
    let changed: Map<u8, changed::Part> = db.transact(|tx| tx.map("parts")).unwrap();
    assert_eq!(db.transact(|tx| changed.get(tx, &1)).unwrap(), Some(now));
    let component = changed::Component { name: "wheel".into(), mass: 12.0 };
    assert_eq!(read_as::<changed::Component>(&db, part).unwrap(), component);
    assert_eq!(read_as::<changed::Converted>(&db, part).unwrap(), changed::Converted("wheel".into()));
    let tagged = changed::Part { title: "rim".into(), tags: vec!["new".into()], note: Some(1) };
    db.transact(|tx| tx.put(part.cast(), &tagged)).unwrap();
    refused(
        read_as::<Part>(&db, part),
        "is a value of type Part, and promises::kinds::Part was asked for: missing field `name`",
    );
    assert_eq!(read_as::<changed::Part>(&db, part).unwrap(), tagged);
    db.transact(|tx| tx.put(part.cast(), &changed::Converted("hub".into()))).unwrap();
    assert_eq!(read_as::<Part>(&db, part).unwrap().name, "hub");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sparse {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    note: Option<String>,
    #[expect(clippy::option_option, reason = "it is to be read as it was")]
    link: Option<Option<Ref<Part>>>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Part(Part),
    Link { to: Ref<Part> },
    Bytes(Vec<u8>),
}

#[track_caller]
fn kept<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let db = Db::in_memory().unwrap();
    let object = db.transact(|tx| tx.create(Anywhere, value)).unwrap();
    assert_eq!(&db.transact(|tx| tx.get(object)).unwrap(), value);
    let map: Map<u8, T> = db.transact(|tx| tx.map("values")).unwrap();
    db.transact(|tx| map.insert(tx, &1, value)).unwrap();
    assert_eq!(db.transact(|tx| map.get(tx, &1)).unwrap().as_ref(), Some(value));
}

#[test]
fn types_that_serde_decides_on_while_it_reads_are_read() {
    let db = Db::in_memory().unwrap();
    let to = db.transact(|tx| tx.create(Anywhere, &wheel())).unwrap();
    let rest = BTreeMap::from([("size".to_owned(), serde_json::json!({"x": [1, 2.5, null]}))]);
    kept(&Sparse { note: None, link: Some(None), rest: rest.clone() });
    kept(&Sparse { note: Some("n".into()), link: Some(Some(to)), rest });
    kept(&Either::Part(wheel()));
    kept(&Either::Link { to });
    kept(&Either::Bytes(vec![1; 100]));
    kept(&serde_json::json!([{"a": null}, 1, "text"]));
    kept(&(Some(()), None::<()>, Some(Some(None::<u8>))));
}

/// The transaction is as it was before.
#[test]
fn a_value_that_cannot_be_read_back_is_refused() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Skips {
        #[serde(skip_serializing_if = "String::is_empty")]
        name: String,
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Raw(Box<serde_json::value::RawValue>);
    #[derive(Debug, Serialize, Deserialize)]
    struct Nested(Vec<Nested>);

    fn refusal<T: Serialize + DeserializeOwned + Debug>(value: &T) -> String {
        let db = Db::in_memory().unwrap();
        let map: Map<u8, T> = db.transact(|tx| tx.map("values")).unwrap();
        let error = db.transact(|tx| {
            let error = map.insert(tx, &1, value).unwrap_err();
            assert!(map.is_empty(tx)?);
            assert_eq!(tx.create(Anywhere, value).unwrap_err().to_string(), error.to_string());
            Ok(error)
        });
        match error.unwrap() {
            error @ Error::Encode { .. } => error.to_string(),
            error => panic!("another error: {error}"),
        }
    }

    let text = refusal(&Skips { name: String::new() });
    assert!(text.ends_with("Skips cannot be stored: it could not be read back: missing field `name`"), "{text}");
    let text = refusal(&Raw(serde_json::value::RawValue::from_string("[1]".into()).unwrap()));
    assert!(text.contains("Raw cannot be stored: it could not be read back"), "{text}");
    let nested = (0..300).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
    let text = refusal(&nested);
    assert!(text.ends_with("cannot be stored: it is nested more than 200 deep"), "{text}");
}
