//! Values looked through for byte strings, whatever they are values of.

use super::{BYTE, BYTES, INDEFINITE, LONG, TEXT};

/// Tells the byte strings of some values that stand one behind the other, as far as they are well-formed. The content
/// of an array, a map or a tag follows it like any other value, so nesting does not matter.
pub(crate) fn byte_strings(mut values: &[u8], found: &mut dyn FnMut(&[u8])) {
    while let Some((&head, rest)) = values.split_first() {
        let (major, short) = (head >> 5, head & 0x1f);
        let argument_bytes = if (BYTE..=LONG).contains(&short) { 1 << (short - BYTE) } else { 0 };
        let Some((argument, rest)) = rest.split_at_checked(argument_bytes) else { return };
        values = rest;
        if !matches!(major, BYTES | TEXT) || short == INDEFINITE {
            continue;
        }
        let long = argument.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let len = if argument.is_empty() { u64::from(short) } else { long };
        let Some((string, rest)) = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)) else { return };
        if major == BYTES {
            found(string);
        }
        values = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use crate::Ref;
    use serde::Serialize;
    use std::collections::BTreeMap;
    use types::{ObjectId, PageId};

    fn strings(values: &[u8]) -> Vec<Vec<u8>> {
        let mut strings = Vec::new();
        byte_strings(values, &mut |string| strings.push(string.to_vec()));
        strings
    }

    #[test]
    fn references_are_found_wherever_they_stand() {
        #[derive(Serialize)]
        struct Part {
            name: String,
            mass: f64,
            next: Option<Ref<Part>>,
            tags: Vec<Ref<u8>>,
            by_name: BTreeMap<String, (i64, Ref<u8>)>,
        }
        let place = |number| ObjectId::new(PageId::new(0, number), 3);
        let part = Part {
            name: "x".repeat(300),
            mass: 1.5,
            next: Some(Ref::new(place(1), 7)),
            tags: (2..5).map(|number| Ref::new(place(number), 7)).collect(),
            by_name: [("hub".to_owned(), (-70_000, Ref::new(place(5), 7)))].into(),
        };
        let mut writer = Writer::new(Vec::new());
        part.serialize(&mut writer).unwrap();
        let found = strings(&writer.into_bytes());
        let found: Vec<_> = found.iter().map(|bytes| Ref::<()>::from_bytes(bytes).unwrap().id()).collect();
        assert_eq!(found, [1, 2, 3, 4, 5].map(place));
    }

    #[test]
    fn a_value_that_is_cut_short_ends_there() {
        assert_eq!(strings(&[0x82, 0x41, 1, 0x42, 2]), [[1]]);
        assert_eq!(strings(&[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Vec::<Vec<u8>>::new());
        assert_eq!(strings(&[0x19]), Vec::<Vec<u8>>::new());
    }
}
