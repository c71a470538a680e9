//! The client of a bucket: bounded in time, and in what is under way at once.
//!
//! Callers are threads that may block. The requests run on a runtime of the bucket's own, so a thread of another
//! runtime can wait for them, too.

use super::Object;
use crate::bucket_url::BucketUrl;
use crate::error::ChunkError;
use crate::folders::Content;
use crate::limits::{
    BUCKET_BYTES_MAX, BUCKET_LIST_OBJECTS, BUCKET_REQUESTS_MAX, BUCKET_WITHIN, CONNECT_WITHIN, MARKER_BYTES_MAX,
    REQUEST_WITHIN, RETRIES_MAX, RETRY_WITHIN,
};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig};
use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tree::ChunkHash;
use vfs::random;

/// The object that says whose chunks these are.
const MARKER: &str = "thorp-chunks";
const KIND: &str = "thorp chunks in a bucket";

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    shared: Arc<Shared>,
    handle: Handle,
    /// None once it has ended.
    runtime: Mutex<Option<Runtime>>,
}

struct Shared {
    url: BucketUrl,
    /// The number of this store.
    owner: u64,
    objects: Arc<dyn ObjectStore>,
    within: Duration,
    /// Permits for requests that write, and for their KiB.
    requests: Semaphore,
    kib: Semaphore,
    /// The marker was seen to be this store's.
    is_claimed: AtomicBool,
    /// The store has nothing here yet, so it may make the marker.
    may_claim: AtomicBool,
    /// Objects that are being written, or that were written and may not be in the table yet.
    under_way: Mutex<HashSet<Object>>,
    removals: Mutex<usize>,
    settled: Condvar,
    /// The error of the last request.
    trouble: Mutex<Option<String>>,
}

/// Objects that were written. Until this is dropped, a sweep does not take them for leftovers.
#[derive(Debug)]
pub(crate) struct Uploaded {
    objects: Vec<Object>,
    shared: Arc<Shared>,
}

impl Bucket {
    /// The bucket at an address, which is not asked yet. Access and region are those of the environment, as for other
    /// programs that use S3.
    pub(crate) fn connect(url: &BucketUrl, owner: u64, _: &Path) -> Result<Self, ChunkError> {
        // For the library's connections. Everything else here names its provider.
        let _ = ring::default_provider().install_default();
        let options = ClientOptions::new().with_timeout(REQUEST_WITHIN).with_connect_timeout(CONNECT_WITHIN);
        let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_WITHIN, ..RetryConfig::default() };
        let builder = AmazonS3Builder::from_env().with_bucket_name(url.bucket());
        let keys = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
        let endpoint = keys.iter().find_map(|key| builder.get_config_value(key)).unwrap_or_default();
        // Without TLS only if the environment says so.
        let options = options.with_allow_http(endpoint.starts_with("http://"));
        let store = builder.with_client_options(options).with_retry(retry).build();
        let store = store.map_err(|error| failed(url, "use", &error))?;
        Self::over(url, owner, Arc::new(store), BUCKET_WITHIN)
    }

    /// The bucket in a store of objects, whose requests take at most so long.
    pub(crate) fn over(
        url: &BucketUrl,
        owner: u64,
        objects: Arc<dyn ObjectStore>,
        within: Duration,
    ) -> Result<Self, ChunkError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("bucket").enable_all().build();
        let runtime = runtime.map_err(|error| failed(url, "use", &error))?;
        let shared = Shared {
            url: url.clone(),
            owner,
            objects,
            within,
            requests: Semaphore::new(BUCKET_REQUESTS_MAX),
            kib: Semaphore::new(BUCKET_BYTES_MAX / 1024),
            is_claimed: AtomicBool::new(false),
            may_claim: AtomicBool::new(false),
            under_way: Mutex::default(),
            removals: Mutex::default(),
            settled: Condvar::new(),
            trouble: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) })
    }

    /// The number of the store whose chunks are here; none if there is no marker.
    pub(crate) fn owner(&self) -> Result<Option<u64>, ChunkError> {
        self.run(|shared| async move { shared.owner().await })
    }

    /// Has the marker made if there is none: the store has nothing here.
    pub(crate) fn allow_claim(&self) {
        self.shared.may_claim.store(true, Ordering::Release);
    }

    /// Checks that the marker is this store's.
    pub(crate) fn claim(&self) -> Result<(), ChunkError> {
        self.run(|shared| async move { shared.claim().await })
    }

    /// Where an object is, for people.
    pub(crate) fn path(&self, object: &Object) -> PathBuf {
        format!("{}/{}", self.shared.url, object.name()).into()
    }

    /// Writes each chunk as an object of a new name. All are durable on return.
    pub(crate) fn upload(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<Uploaded, ChunkError> {
        let mut puts = Vec::with_capacity(chunks.len());
        for (hash, bytes) in chunks {
            puts.push((Object { hash: *hash, put: random()? }, bytes.clone()));
        }
        let objects: Vec<Object> = puts.iter().map(|(object, _)| *object).collect();
        lock(&self.shared.under_way).extend(&objects);
        let uploaded = Uploaded { objects, shared: self.shared.clone() };
        self.run(|shared| async move {
            shared.claim().await?;
            let puts = puts.into_iter().map(|(object, bytes)| shared.put(object, bytes));
            stream::iter(puts).buffer_unordered(BUCKET_REQUESTS_MAX).try_for_each(|()| async { Ok(()) }).await
        })?;
        Ok(uploaded)
    }

    /// Whether an object may be about to enter the table.
    pub(crate) fn is_under_way(&self, object: &Object) -> bool {
        lock(&self.shared.under_way).contains(object)
    }

    /// Reads an object and compares it with its name.
    pub(crate) fn read(&self, object: &Object, bytes: u32) -> Result<Content, ChunkError> {
        let object = *object;
        self.run(move |shared| async move { shared.read(object, bytes).await })
    }

    /// Removes objects in the background. Objects that stay are leftovers.
    pub(crate) fn remove_later(&self, objects: Vec<Object>) {
        if objects.is_empty() {
            return;
        }
        let removal = Removal::begin(&self.shared);
        self.handle.spawn(async move {
            let shared = removal.0.clone();
            let removed = shared.remove(objects).await;
            shared.note(removed.as_ref().err());
            drop(removal);
        });
    }

    /// Removes objects.
    pub(crate) fn remove(&self, objects: Vec<Object>) -> Result<(), ChunkError> {
        self.run(move |shared| async move { shared.remove(objects).await })
    }

    /// Waits for the removals that are under way.
    pub(crate) fn settle(&self) {
        let removals = lock(&self.shared.removals);
        drop(self.shared.settled.wait_while(removals, |count| *count > 0).unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns objects behind the one of this name, and the last name if there may be more. Objects of other programs
    /// are not among them.
    pub(crate) fn list(&self, after: Option<&str>) -> Result<(Vec<Object>, Option<String>), ChunkError> {
        let after = after.map(str::to_owned);
        self.run(move |shared| async move { shared.list(after).await })
    }

    /// The error of the last request, unless a later one was successful.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).clone()
    }

    /// Ends all requests: who waits for one gets an error.
    pub(crate) fn end(&self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }

    /// Waits for requests, which end by themselves.
    fn run<T: Send + 'static, F: Future<Output = Result<T, ChunkError>> + Send + 'static>(
        &self,
        requests: impl FnOnce(Arc<Shared>) -> F,
    ) -> Result<T, ChunkError> {
        let (tell, told) = mpsc::sync_channel(1);
        let requests = requests(self.shared.clone());
        self.handle.spawn(async move {
            let _ = tell.send(requests.await);
        });
        let Ok(done) = told.recv() else {
            return Err(failed(&self.shared.url, "use", &"this process is closing it"));
        };
        self.shared.note(done.as_ref().err());
        done
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.end();
    }
}

impl Uploaded {
    /// The objects, in the order of the chunks.
    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }
}

impl Drop for Uploaded {
    fn drop(&mut self) {
        let mut under_way = lock(&self.shared.under_way);
        for object in &self.objects {
            under_way.remove(object);
        }
    }
}

impl Shared {
    fn path(&self, name: &str) -> ObjectPath {
        ObjectPath::from(self.url.object(name))
    }

    fn failed(&self, doing: &'static str, why: &dyn fmt::Display) -> ChunkError {
        failed(&self.url, doing, why)
    }

    /// Bounds a request in time, whatever its retries are.
    async fn bounded<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, ChunkError> {
        let late = |_| self.failed(doing, &format!("no answer within {} s", self.within.as_secs_f32()));
        timeout(self.within, request).await.map_err(late)
    }

    async fn owner(&self) -> Result<Option<u64>, ChunkError> {
        let path = self.path(MARKER);
        let read = self.bounded("read from", async {
            let got = self.objects.get(&path).await?;
            let is_short = got.meta.size <= MARKER_BYTES_MAX;
            if is_short { Ok(Some(got.bytes().await?)) } else { Ok(None) }
        });
        let text = match read.await? {
            Ok(text) => text,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.failed("read from", &error)),
        };
        let owner = text.as_ref().and_then(|text| parse_marker(text));
        owner.map(Some).ok_or_else(|| ChunkError::BucketTaken { url: self.url.to_string() })
    }

    async fn claim(&self) -> Result<(), ChunkError> {
        if self.is_claimed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut owner = self.owner().await?;
        if owner.is_none() && self.may_claim.load(Ordering::Acquire) {
            let (path, text) = (self.path(MARKER), marker(self.owner));
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let made = self.bounded("write to", self.objects.put_opts(&path, text.into(), options)).await?;
            match made {
                // Another store was faster, or an answer to this one was lost.
                Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => owner = self.owner().await?,
                Err(error) => return Err(self.failed("write to", &error)),
            }
        }
        self.check_owner(owner)?;
        self.is_claimed.store(true, Ordering::Release);
        Ok(())
    }

    fn check_owner(&self, owner: Option<u64>) -> Result<(), ChunkError> {
        let url = || self.url.to_string();
        match owner {
            Some(owner) if owner == self.owner => Ok(()),
            Some(_) => Err(ChunkError::BucketTaken { url: url() }),
            None => Err(ChunkError::BucketEmptied { url: url() }),
        }
    }

    async fn put(self: &Arc<Self>, object: Object, bytes: Bytes) -> Result<(), ChunkError> {
        let closed = |_| self.failed("write to", &"this process is closing it");
        let _request = self.requests.acquire().await.map_err(closed)?;
        let _kib = self.kib.acquire_many(bytes.len().div_ceil(1024) as u32).await.map_err(closed)?;
        let path = self.path(&object.name());
        let put = self.bounded("write to", self.objects.put(&path, bytes.into())).await?;
        put.map(drop).map_err(|error| self.failed("write to", &error))
    }

    async fn read(&self, object: Object, bytes: u32) -> Result<Content, ChunkError> {
        let path = self.path(&object.name());
        let read = self.bounded("read from", async {
            let got = self.objects.get(&path).await?;
            if got.meta.size == u64::from(bytes) { Ok(Some(got.bytes().await?)) } else { Ok(None) }
        });
        match read.await? {
            Ok(Some(bytes)) if ChunkHash::of(&bytes) == object.hash => Ok(Content::Whole(bytes)),
            Ok(_) => Ok(Content::Damaged),
            // A bucket that was removed, or another one under its name, says the same.
            Err(Error::NotFound { .. }) => {
                self.check_owner(self.owner().await?)?;
                Ok(Content::Missing)
            }
            Err(error) => Err(self.failed("read from", &error)),
        }
    }

    async fn remove(&self, objects: Vec<Object>) -> Result<(), ChunkError> {
        self.claim().await?;
        let paths: Vec<_> = objects.iter().map(|object| Ok(self.path(&object.name()))).collect();
        let removed = self.objects.delete_stream(stream::iter(paths).boxed()).map(|removed| match removed {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed.map(drop),
        });
        let removed = self.bounded("remove from", removed.try_for_each(|()| async { Ok(()) })).await?;
        removed.map_err(|error| self.failed("remove from", &error))
    }

    async fn list(&self, after: Option<String>) -> Result<(Vec<Object>, Option<String>), ChunkError> {
        self.claim().await?;
        let prefix = self.path("chunks");
        let found = match after {
            Some(after) => self.objects.list_with_offset(Some(&prefix), &ObjectPath::from(after)),
            None => self.objects.list(Some(&prefix)),
        };
        let found = found.take(BUCKET_LIST_OBJECTS).map_ok(|meta| meta.location).try_collect::<Vec<_>>();
        let found = self.bounded("list", found).await?.map_err(|error| self.failed("list", &error))?;
        let is_last = found.len() < BUCKET_LIST_OBJECTS;
        let last = found.last().filter(|_| !is_last).map(ToString::to_string);
        let own = found.iter().filter_map(|path| path.as_ref().strip_prefix(prefix.as_ref()).and_then(parse_name));
        Ok((own.collect(), last))
    }

    fn note(&self, error: Option<&ChunkError>) {
        *lock(&self.trouble) = error.map(ToString::to_string);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A removal that is under way.
struct Removal(Arc<Shared>);

impl Removal {
    fn begin(shared: &Arc<Shared>) -> Self {
        *lock(&shared.removals) += 1;
        Self(shared.clone())
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        *lock(&self.0.removals) -= 1;
        self.0.settled.notify_all();
    }
}

fn marker(owner: u64) -> String {
    format!("{KIND}\nformat 1\nstore {owner:016x}\n")
}

/// The number in a marker.
fn parse_marker(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let owner = u64::from_str_radix(text.trim_end().rsplit_once(' ')?.1, 16).ok()?;
    Some(owner).filter(|owner| text == marker(*owner))
}

/// The object of a name behind `chunks`.
fn parse_name(name: &str) -> Option<Object> {
    let (hash, put) = name.rsplit_once('.')?;
    let (first, rest) = hash.strip_prefix('/')?.split_once('/')?;
    let hash = ChunkHash::parse(&format!("{first}{rest}"))?;
    let object = Object { hash, put: u64::from_str_radix(put, 16).ok()? };
    Some(object).filter(|object| object.name().strip_prefix("chunks") == Some(name))
}

fn failed(url: &BucketUrl, doing: &'static str, why: &dyn fmt::Display) -> ChunkError {
    ChunkError::Bucket { url: url.to_string(), doing, why: why.to_string() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_are_left_alone() {
        let object = Object { hash: ChunkHash::of(b"page"), put: 0x17 };
        let name = object.name();
        let name = name.strip_prefix("chunks").unwrap();
        assert_eq!(parse_name(name), Some(object));
        for other in [&name[1..], &name.to_uppercase(), &name[..name.len() - 1], &format!("{name}0"), "/notes.txt", ""]
        {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_marker_is_one_of_a_store() {
        assert_eq!(parse_marker(marker(7).as_bytes()), Some(7));
        for other in ["", "thorp chunks in a bucket\nformat 2\nstore 0000000000000007\n", "store 7", &marker(7)[1..]] {
            assert_eq!(parse_marker(other.as_bytes()), None, "{other}");
        }
    }
}
