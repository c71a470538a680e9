//! The address of a bucket, as operators write it and the marker records it.

use crate::error::ChunkError;
use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "s3://";

/// The bytes of an address, at most. The name of an object, which S3 bounds to 1024 bytes, has the prefix in it.
const BYTES_MAX: usize = 512;

/// A bucket and a prefix of names in it: `s3://BUCKET/PREFIX`, or `s3://BUCKET`.
///
/// ```
/// let url: chunks::BucketUrl = "s3://pages/shop/chunks/".parse()?;
/// assert_eq!(url.to_string(), "s3://pages/shop/chunks");
/// assert!("s3://pages/../other".parse::<chunks::BucketUrl>().is_err());
/// # Ok::<(), chunks::ChunkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl {
    bucket: String,
    /// Its parts are joined by `/`; empty if there is none.
    prefix: String,
}

impl BucketUrl {
    /// The name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The name of an object behind the prefix.
    pub fn object(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }
}

impl FromStr for BucketUrl {
    type Err = ChunkError;

    fn from_str(text: &str) -> Result<Self, ChunkError> {
        let bad = |why| ChunkError::BucketUrl { url: text.to_owned(), why };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| bad("an address begins with s3://"))?;
        if text.len() > BYTES_MAX {
            return Err(bad("an address has 512 bytes at most"));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_of_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_of_bucket) {
            return Err(bad("the name of a bucket has 3 to 63 letters, digits, '-', '.' and '_'"));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        // Of these, no client, server or proxy on the way encodes any in a way of its own.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._=".contains(c);
        let is_part = |part: &str| !part.is_empty() && ![".", ".."].contains(&part) && part.chars().all(is_plain);
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(bad("each part of the prefix has letters, digits, '-', '.', '_' and '='"));
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}
