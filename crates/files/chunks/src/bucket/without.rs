//! A program that was built without object storage has no bucket.

use super::Object;
use crate::bucket_url::BucketUrl;
use crate::error::ChunkError;
use crate::folders::Content;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use tree::ChunkHash;

/// There is none.
#[derive(Debug)]
pub(crate) enum Bucket {}

/// There are none.
#[derive(Debug)]
pub(crate) enum Uploaded {}

impl Uploaded {
    pub(crate) fn objects(&self) -> &[Object] {
        match *self {}
    }
}

impl Bucket {
    pub(crate) fn connect(_: &BucketUrl, _: u64, dir: &Path) -> Result<Self, ChunkError> {
        Err(ChunkError::NoObjectStorage { dir: dir.to_owned() })
    }

    pub(crate) fn owner(&self) -> Result<Option<u64>, ChunkError> {
        match *self {}
    }

    pub(crate) fn allow_claim(&self) {
        match *self {}
    }

    pub(crate) fn claim(&self) -> Result<(), ChunkError> {
        match *self {}
    }

    pub(crate) fn path(&self, _: &Object) -> PathBuf {
        match *self {}
    }

    pub(crate) fn upload(&self, _: &[(ChunkHash, Bytes)]) -> Result<Uploaded, ChunkError> {
        match *self {}
    }

    pub(crate) fn is_under_way(&self, _: &Object) -> bool {
        match *self {}
    }

    pub(crate) fn read(&self, _: &Object, _: u32) -> Result<Content, ChunkError> {
        match *self {}
    }

    pub(crate) fn remove_later(&self, _: Vec<Object>) {
        match *self {}
    }

    pub(crate) fn remove(&self, _: Vec<Object>) -> Result<(), ChunkError> {
        match *self {}
    }

    pub(crate) fn settle(&self) {
        match *self {}
    }

    pub(crate) fn list(&self, _: Option<&str>) -> Result<(Vec<Object>, Option<String>), ChunkError> {
        match *self {}
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }
}
