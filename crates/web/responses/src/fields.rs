//! Header fields in one piece of memory, as HTTP/1.1 writes them.
//!
//! A `HeaderMap` takes over a hundred bytes for each field, which is more than many a small entry of a cache has in
//! all. Here a field takes four bytes above its own.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Header fields: `name: value\r\n`, one after the other, names in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// All of it, as HTTP/1.1 writes it, without the empty line at the end.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Each field line: its name and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (name, value, behind) = first_line(rest)?;
            rest = behind;
            Some((name, value))
        })
    }

    /// The value of the first line with that name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|&(other, _)| other == name).map(|(_, value)| value)
    }

    /// The fields as a map. Its values share one copy of this memory.
    pub fn to_map(&self) -> HeaderMap {
        let shared = Bytes::copy_from_slice(self.0);
        let lines = Fields(&shared);
        let mut map = HeaderMap::with_capacity(lines.iter().count());
        for (name, value) in lines.iter() {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("it came from a map");
            let value = HeaderValue::from_maybe_shared(shared.slice_ref(value)).expect("it came from a map");
            map.append(name, value);
        }
        map
    }
}

/// Writes the fields of a map for which `keep` is true, in the map's order.
pub(crate) fn write_fields(map: &HeaderMap, mut keep: impl FnMut(&HeaderName) -> bool, out: &mut Vec<u8>) {
    for name in map.keys().filter(|name| keep(name)) {
        for value in map.get_all(name) {
            write_line(out, name, value);
        }
    }
}

/// Writes one field.
pub(crate) fn write_line(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The name and value of the first line, and the lines behind it; `None` at the end. A name is a token, so it ends at
/// the first colon, and a value has no line breaks.
fn first_line(lines: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let colon = lines.iter().position(|&byte| byte == b':')?;
    let end = colon + lines[colon..].iter().position(|&byte| byte == b'\r')?;
    let name = std::str::from_utf8(&lines[..colon]).ok()?;
    Some((name, lines.get(colon + 2..end)?, lines.get(end + 2..)?))
}
