//! Header fields in one piece of memory, as HTTP/1.1 writes them.
//!
//! A `HeaderMap` takes over a hundred bytes for each field, which is more than many a small entry of a cache has in
//! all. Here a field takes four bytes above its own, a clone shares the memory, and HTTP/1.1 can be written as it is.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Header fields: `name: value\r\n`, one after the other, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Bytes);

impl Fields {
    /// The fields of a map for which `keep` is true, in the map's order.
    pub fn of(map: &HeaderMap, mut keep: impl FnMut(&HeaderName) -> bool) -> Self {
        let kept = |name: &&HeaderName| keep(name);
        let names: Vec<&HeaderName> = map.keys().filter(kept).collect();
        let lines = || names.iter().flat_map(|name| map.get_all(*name).iter().map(move |value| (name.as_str(), value)));
        let size = lines().map(|(name, value)| name.len() + value.len() + LINE_BYTES).sum();
        let mut bytes = Vec::with_capacity(size);
        for (name, value) in lines() {
            write_line(&mut bytes, name, value);
        }
        Self(bytes.into())
    }

    /// The same with another line at the end.
    #[must_use]
    pub(crate) fn with(&self, name: &HeaderName, value: &HeaderValue) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + name.as_str().len() + value.len() + LINE_BYTES);
        bytes.extend_from_slice(&self.0);
        write_line(&mut bytes, name.as_str(), value);
        Self(bytes.into())
    }

    /// All of it, as HTTP/1.1 writes it, without the empty line at the end.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Each field line: its name and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest: &[u8] = &self.0;
        std::iter::from_fn(move || {
            let (name, value, behind) = first_line(rest)?;
            rest = behind;
            Some((name, value))
        })
    }

    /// The value of the first line with that name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|&(other, _)| other == name).map(|(_, value)| value)
    }

    /// The fields as a map. The values share this piece of memory.
    pub fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.iter().count());
        for (name, value) in self.iter() {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("it came from a map");
            let value = HeaderValue::from_maybe_shared(self.0.slice_ref(value)).expect("it came from a map");
            map.append(name, value);
        }
        map
    }
}

/// The bytes of a line above those of its name and value.
const LINE_BYTES: usize = ": \r\n".len();

fn write_line(bytes: &mut Vec<u8>, name: &str, value: &HeaderValue) {
    for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
        bytes.extend_from_slice(part);
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
