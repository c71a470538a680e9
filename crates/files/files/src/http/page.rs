//! A file of a site as it is served: its content and its precompressed variants, with the fields that do not depend on
//! a request.

use crate::origin::NotRead;
use crate::reader::Reader;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use responses::preferred_coding;
use tree::{ChunkHash, Content, Kind, Name};

/// The codings of variants. Of two that are equally large, the first is preferred.
const CODINGS: [Coding; 3] = [
    Coding { name: "br", suffix: b".br" },
    Coding { name: "zstd", suffix: b".zst" },
    Coding { name: "gzip", suffix: b".gz" },
];

/// A content coding, and the suffix of files that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) name: &'static str,
    suffix: &'static [u8],
}

/// A content with its validator.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) size: u64,
    pub(crate) content: Content,
    /// The entity tag: the hash of the content.
    pub(crate) tag: HeaderValue,
}

/// A version of a page, and its coding.
pub(crate) type Chosen<'a> = (&'a Version, Option<Coding>);

/// A file of a site.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    plain: Version,
    /// Its variants, the smallest first.
    variants: Vec<(Coding, Version)>,
    pub(crate) content_type: HeaderValue,
}

impl Page {
    /// The page of a file in a directory, with the variants beside it.
    pub(crate) fn read(
        reader: Reader<'_>,
        directory: ChunkHash,
        name: &Name,
        plain: &Kind,
    ) -> Result<Option<Self>, NotRead> {
        let Some(mut page) = Self::plain(&name.to_string(), plain) else { return Ok(None) };
        for coding in CODINGS {
            let Ok(name) = Name::new(&[name.as_bytes(), coding.suffix].concat()) else { continue };
            let entry = reader.entry(directory, &name)?;
            page.variants.extend(entry.and_then(|entry| Version::of(&entry.kind)).map(|version| (coding, version)));
        }
        page.variants.sort_by_key(|(_, version)| version.size);
        Ok(Some(page))
    }

    /// The page of a file without variants, or `None` for directories and links.
    pub(crate) fn plain(name: &str, file: &Kind) -> Option<Self> {
        Some(Self { plain: Version::of(file)?, variants: Vec::new(), content_type: content_type(name) })
    }

    /// Whether answers depend on the codings that a client accepts.
    pub(crate) fn has_variants(&self) -> bool {
        !self.variants.is_empty()
    }

    /// The version that a request prefers, and its coding.
    pub(crate) fn preferred(&self, request: &HeaderMap) -> Chosen<'_> {
        let names = self.variants.iter().map(|(coding, _)| coding.name);
        let index = if self.has_variants() { preferred_coding(request, names) } else { None };
        let variant = index.and_then(|index| self.variants.get(index));
        variant.map_or((&self.plain, None), |(coding, version)| (version, Some(*coding)))
    }

    /// The memory that it takes, about.
    pub(crate) fn weight(&self) -> usize {
        self.plain.weight() + self.variants.iter().map(|(_, version)| 50 + version.weight()).sum::<usize>()
    }
}

impl Version {
    fn of(kind: &Kind) -> Option<Self> {
        let Kind::File { size, content, .. } = kind else { return None };
        let (size, tag) = (*size, tag(content));
        let content = match content {
            // A slice would keep its directory's chunk in memory.
            Content::Inline(bytes) => Content::Inline(Bytes::copy_from_slice(bytes)),
            content => content.clone(),
        };
        Some(Self { size, content, tag })
    }

    fn weight(&self) -> usize {
        let content = match &self.content {
            Content::Inline(bytes) => bytes.len(),
            Content::Pieces(pieces) => size_of_val(&**pieces),
            Content::Lists(lists) => size_of_val(&**lists),
        };
        200 + content
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The validator of a content: its hash.
pub(crate) fn tag(content: &Content) -> HeaderValue {
    let mut text = [b'"'; 2 * ChunkHash::BYTES + 2];
    for (digits, byte) in text[1..].chunks_exact_mut(2).zip(content_hash(content).as_bytes()) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    HeaderValue::from_bytes(&text).expect("a hash is hexadecimal digits")
}

/// The hash of a content, of its chunks or of its lists.
pub(crate) fn content_hash(content: &Content) -> ChunkHash {
    match content {
        Content::Inline(bytes) => ChunkHash::of(bytes),
        Content::Pieces(pieces) if pieces.len() == 1 => pieces[0].hash,
        Content::Pieces(pieces) => of_all(pieces.iter().map(|piece| &piece.hash)),
        Content::Lists(lists) => of_all(lists.iter()),
    }
}

fn of_all<'a>(hashes: impl Iterator<Item = &'a ChunkHash>) -> ChunkHash {
    let bytes: Vec<u8> = hashes.flat_map(|hash| *hash.as_bytes()).collect();
    ChunkHash::of(&bytes)
}

fn content_type(name: &str) -> HeaderValue {
    let guessed = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    match guessed {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/css" => HeaderValue::from_static("text/css; charset=utf-8"),
        "text/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        "application/json" => HeaderValue::from_static("application/json; charset=utf-8"),
        text if text.starts_with("text/") || text == "application/javascript" => {
            HeaderValue::try_from(format!("{text}; charset=utf-8")).unwrap_or(HeaderValue::from_static("text/plain"))
        }
        other => HeaderValue::from_static(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_names() {
        assert_eq!(content_type("a.html"), "text/html; charset=utf-8");
        assert_eq!(content_type("a.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("a.png"), "image/png");
        assert_eq!(content_type("a"), "application/octet-stream");
    }
}
