//! The choice of a bucket for large chunks. The marker of the directory records it, with the number by which the bucket
//! knows the store, and every later start uses it.
//!
//! | the directory | the place in the bucket | |
//! |---|---|---|
//! | has this one | is not asked | a store starts while its bucket fails |
//! | has no bucket | has no marker | is recorded, then claimed; files stay where they are |
//! | has another one, and the table no objects | has no marker | likewise |
//! | has any | has this store's marker | is recorded: it is where it was, or the objects were copied there |
//! | has another one, with objects | has no marker | `other-bucket` |
//! | any | has the marker of another store | `bucket-taken` |

use crate::bucket::Bucket;
use crate::bucket_url::BucketUrl;
use crate::directory::{self, Home, Marker};
use crate::error::ChunkError;
use crate::store::Chunks;
use std::path::Path;
use vfs::random;

impl Chunks {
    /// Has the store in a directory put its large chunks into a bucket from now on, across restarts. Makes the store as
    /// [`Chunks::open`] does. Chunks that are there stay where they are.
    ///
    /// # Errors
    /// Those of [`Chunks::open`], `bucket`, `bucket-taken`, `other-bucket`, `no-object-storage`.
    pub fn keep_in_bucket(dir: &Path, url: &BucketUrl) -> Result<(), ChunkError> {
        Self::open(dir)?.choose(url, |url, owner| Bucket::connect(url, owner, dir))
    }

    pub(crate) fn choose(
        &self,
        url: &BucketUrl,
        connect: impl Fn(&BucketUrl, u64) -> Result<Bucket, ChunkError>,
    ) -> Result<(), ChunkError> {
        let owner = match &self.home {
            Some(home) if home.url == *url => return Ok(()),
            Some(home) => home.owner,
            None => random()?,
        };
        let bucket = connect(url, owner)?;
        let has_objects = self.table.has_objects()?;
        if !has_objects {
            bucket.allow_claim();
        }
        match (bucket.owner()?, &self.home) {
            (Some(found), _) if found != owner => return Err(ChunkError::BucketTaken { url: url.to_string() }),
            (None, Some(home)) if has_objects => {
                let (has, named) = (home.url.to_string(), url.to_string());
                return Err(ChunkError::OtherBucket { dir: self.files.path(""), has, named });
            }
            _ => {}
        }
        let home = Home { url: url.clone(), owner };
        directory::mark(&*self.files, &Marker { bucket: Some(home) })?;
        // Behind the record: a start that was interrupted in between claims the place as this one would have.
        bucket.claim()
    }
}
