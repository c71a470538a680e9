//! The rules of a site: its files `_redirects` and `_headers`, which are read once for each content they have.
//!
//! | module | duty |
//! |---|---|
//! | `redirects` | `_redirects`: paths that lead elsewhere |
//! | `fields` | `_headers`: fields of answers |
//! | `pattern`, `target` | the paths that a rule matches, and where it leads |
//! | `lines` | the lines of both files, and the reports of those that are skipped |

mod fields;
mod lines;
mod pattern;
mod redirects;
mod target;

use crate::http::page::content_hash;
use crate::member::fetching::Reading;
use crate::origin::NotRead;
use crate::reader::Reader;
pub(crate) use fields::{FieldRules, SiteFields};
use foldhash::fast::RandomState;
use lines::SkippedLine;
pub use lines::SkippedRule;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};
pub(crate) use redirects::{Redirects, Ruled};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tree::{ChunkHash, Content, Kind, Name};

/// Contents of each file whose rules are in memory: those of the revisions that visitors still read.
const CONTENTS_KEPT: usize = 16;

/// The suffixes of variants of the files, which are not served either.
const VARIANTS: [&[u8]; 4] = [b"", b".br", b".zst", b".gz"];

type ByContent<T> = Cache<ChunkHash, Arc<Known<T>>, UnitWeighter, RandomState>;

/// Rules of which nothing is read any longer. Their content stays on the disk: after a restart without the store, no
/// visitor could be served without it.
struct Known<T> {
    rules: Arc<T>,
    _content: Option<Reading>,
}

/// The rules of a revision.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) redirects: Arc<Redirects>,
    pub(crate) fields: Arc<FieldRules>,
}

/// The rules of a site's revisions, by the contents of its files.
pub(crate) struct KnownRules {
    redirects: ByContent<Redirects>,
    fields: ByContent<FieldRules>,
    none: Rules,
    report: fn(&SkippedRule),
    skipped: AtomicU64,
}

/// One of the two files.
struct File<T> {
    name: &'static str,
    bytes_max: u64,
    read: fn(&[u8]) -> (T, Vec<SkippedLine>),
}

const REDIRECTS: File<Redirects> =
    File { name: redirects::FILE, bytes_max: redirects::BYTES_MAX, read: Redirects::read };

const FIELDS: File<FieldRules> = File { name: fields::FILE, bytes_max: fields::BYTES_MAX, read: FieldRules::read };

impl KnownRules {
    /// No rules yet; `report` is called with each line that is skipped.
    pub(crate) fn new(report: fn(&SkippedRule)) -> Self {
        let none = Rules { redirects: Arc::default(), fields: Arc::default() };
        Self { redirects: by_content(), fields: by_content(), none, report, skipped: AtomicU64::new(0) }
    }

    /// The rules of a revision with this root. Only a reader that waits reads a file.
    pub(crate) fn of(&self, reader: Reader<'_>, root: ChunkHash) -> Result<Rules, NotRead> {
        let redirects = self.file(reader, root, &REDIRECTS, &self.redirects)?;
        let fields = self.file(reader, root, &FIELDS, &self.fields)?;
        Ok(Rules {
            redirects: redirects.unwrap_or_else(|| self.none.redirects.clone()),
            fields: fields.unwrap_or_else(|| self.none.fields.clone()),
        })
    }

    /// The rules in a file; none if the site has no such file.
    fn file<T>(
        &self,
        reader: Reader<'_>,
        root: ChunkHash,
        file: &File<T>,
        known: &ByContent<T>,
    ) -> Result<Option<Arc<T>>, NotRead> {
        let Ok(name) = Name::new(file.name.as_bytes()) else { return Ok(None) };
        let Some(entry) = reader.entry(root, &name)? else { return Ok(None) };
        let Kind::File { size, content, .. } = &entry.kind else { return Ok(None) };
        let hash = content_hash(content);
        if let Some(known) = known.get(&hash) {
            return Ok(Some(known.rules.clone()));
        }
        if !reader.waits {
            return Err(NotRead::OnDisk);
        }
        let read = || {
            let too_large = *size > file.bytes_max;
            let bytes = if too_large { Vec::new() } else { reader.whole(*size, content)? };
            let (rules, mut skipped) = (file.read)(&bytes);
            if too_large {
                skipped.push((0, format!("it is ignored, as it has more than {} bytes", file.bytes_max)));
            }
            self.skipped.fetch_add(skipped.len() as u64, Relaxed);
            lines::reports(file.name, skipped).iter().for_each(self.report);
            let chunk = match content {
                Content::Pieces(pieces) if !too_large => pieces.first().map(|piece| piece.hash),
                _ => None,
            };
            let kept = chunk.and_then(|chunk| reader.origin.keep(chunk));
            Ok(Arc::new(Known { rules: Arc::new(rules), _content: kept }))
        };
        known.get_or_insert_with(&hash, read).map(|known| Some(known.rules.clone()))
    }

    /// The number of lines that were skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }
}

impl fmt::Debug for KnownRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownRules").field("skipped", &self.skipped).finish_non_exhaustive()
    }
}

/// Whether a name at the root of a site is a file of rules, or a variant of one: they are not served.
pub(crate) fn is_hidden(name: &Name) -> bool {
    let is_variant =
        |file: &str| name.as_bytes().strip_prefix(file.as_bytes()).is_some_and(|it| VARIANTS.contains(&it));
    is_variant(redirects::FILE) || is_variant(fields::FILE)
}

fn by_content<T>() -> ByContent<T> {
    let options = OptionsBuilder::new()
        .weight_capacity(CONTENTS_KEPT as u64)
        .estimated_items_capacity(CONTENTS_KEPT)
        .shards(1)
        .build()
        .expect("the weight and the number of entries are given");
    Cache::with_options(options, UnitWeighter, RandomState::default(), DefaultLifecycle::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Lines as people write them, and as they do not.
    fn line() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            "[/:*a-c.%20-]{0,12}",
            "/:[a-c]{1,2}/\\*|/\\*|/:splat/:[a-c]|https?://[a-c.]{0,5}/:splat|//[a-c]",
            "(200|301|302|404|418)!?",
            "! ?[A-Za-z-]{0,8}|[A-Za-z-]{1,8}: ?[ -~]{0,8}",
            "\\PC{0,8}",
        ];
        prop_oneof![
            9 => vec(word, 0..5).prop_map(|words| words.join(" ").into_bytes()),
            1 => vec(any::<u8>(), 0..40),
        ]
    }

    proptest! {
        /// Hostile files and paths: nothing panics, no redirect leads to a host that is not in the file, and every
        /// location is a field.
        #[test]
        fn hostile_files_do_no_harm(
            lines in vec(line(), 0..40),
            path in "[/a-c:.\\\\é\r\n%*]{0,20}",
            query in "[a-c=&]{0,5}",
        ) {
            let file = lines.join(&b'\n');
            let (redirects, skipped) = Redirects::read(&file);
            prop_assert!(skipped.len() <= file.split(|byte| *byte == b'\n').count());
            let path = path.trim_start_matches('/');
            for ruled in [redirects.missing(path.as_bytes(), Some(&query)), redirects.forced(path.as_bytes(), None)] {
                if let Some(Ruled::To(_, to) | Ruled::Page(_, to)) = ruled {
                    prop_assert!(http::HeaderValue::from_str(&to).is_ok(), "{to:?}");
                    prop_assert!(!to.starts_with("//") && !to.contains('\\'), "{to}");
                    if let Some((_, host)) = to.split_once("://").filter(|_| !to.starts_with('/')) {
                        let host = host.split(['/', '?', '#']).next().unwrap();
                        prop_assert!(String::from_utf8_lossy(&file).contains(host), "{host}");
                    }
                }
            }
            let (fields, _) = FieldRules::read(&file);
            let mut answer = http::HeaderMap::new();
            fields.of(path.as_bytes()).add_to(&mut answer);
            prop_assert!(!answer.contains_key("set-cookie") && !answer.contains_key("content-length"));
        }
    }

    #[test]
    fn the_files_of_rules_are_hidden() {
        let is_hidden = |name: &str| is_hidden(&Name::new(name.as_bytes()).unwrap());
        assert!(["_redirects", "_headers", "_headers.gz", "_redirects.br"].into_iter().all(is_hidden));
        assert!(!["_redirects.txt", "headers", "_header"].into_iter().any(is_hidden));
    }
}
