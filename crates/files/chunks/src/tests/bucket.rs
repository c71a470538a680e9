//! A store with its large chunks in a bucket, which fails, hangs and forgets.

use super::{Temporary, assert_has, chunk, hashes, large};
use crate::bucket::Bucket;
use crate::directory::Home;
use crate::{BucketUrl, ChunkError, Chunks, Condition};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use tree::ChunkHash;

/// How long a request to the bucket may take here: many times a write to a slow disk.
const WITHIN: Duration = Duration::from_secs(2);

/// A bucket that does as it is told.
#[derive(Clone, Debug, Default)]
struct Faulty(Arc<State>);

#[derive(Debug, Default)]
struct State {
    objects: InMemory,
    /// Requests fail.
    fails: AtomicBool,
    /// Requests are not answered.
    hangs: AtomicBool,
    /// Removals wait.
    keeps: AtomicBool,
    /// The duration of a PUT, in milliseconds.
    put_ms: AtomicUsize,
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
}

impl Faulty {
    async fn pass(&self) -> Result<()> {
        while self.0.hangs.load(SeqCst) {
            sleep(Duration::from_millis(5)).await;
        }
        let source = "it is on fire".into();
        if self.0.fails.load(SeqCst) { Err(Error::Generic { store: "test", source }) } else { Ok(()) }
    }

    fn open(&self, dir: &Temporary) -> std::result::Result<Chunks, ChunkError> {
        let folder = |name: &str| -> std::result::Result<Arc<dyn vfs::Files>, _> {
            let folder = dir.path().join(name);
            vfs::make_directory(&folder)?;
            Ok(Arc::new(vfs::Directory::new(&folder)))
        };
        vfs::make_directory(dir.path()).unwrap();
        let files = Arc::new(vfs::Directory::new(dir.path()));
        Chunks::open_in(files, &folder, &|Home { url, owner }| self.connect(url, *owner))
    }

    fn connect(&self, url: &BucketUrl, owner: u64) -> std::result::Result<Bucket, ChunkError> {
        Bucket::over(url, owner, Arc::new(self.clone()), WITHIN)
    }

    /// Has the store of a directory use a place in this bucket.
    fn choose(&self, dir: &Temporary, url: &str) -> std::result::Result<(), ChunkError> {
        self.open(dir)?.choose(&url.parse()?, |url, owner| self.connect(url, owner))
    }

    fn names(&self) -> Vec<String> {
        let listed =
            runtime().block_on(self.0.objects.list(None).map(|meta| meta.unwrap().location).collect::<Vec<_>>());
        listed.iter().map(ToString::to_string).filter(|name| name.contains("/chunks/")).collect()
    }

    fn change_all(&self, bytes: &'static [u8]) {
        for name in self.names() {
            runtime().block_on(async { self.0.objects.put(&Path::from(name), bytes.into()).await.unwrap() });
        }
    }

    fn remove_all(&self, part: &str) {
        for name in self.names().into_iter().chain(["p/thorp-chunks".to_owned()]).filter(|name| name.contains(part)) {
            runtime().block_on(async { self.0.objects.delete(&Path::from(name)).await.unwrap() });
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket that does as it is told")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let state = &*self.0;
        state.under_way_max.fetch_max(state.under_way.fetch_add(1, SeqCst) + 1, SeqCst);
        sleep(Duration::from_millis(state.put_ms.load(SeqCst) as u64)).await;
        let passed = self.pass().await;
        state.under_way.fetch_sub(1, SeqCst);
        passed?;
        state.objects.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unreachable!("chunks are small")
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.pass().await?;
        self.0.objects.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let faulty = self.clone();
        let removed = paths.then(move |path| {
            let faulty = faulty.clone();
            async move {
                let path = path?;
                faulty.pass().await?;
                let (state, of) = (faulty.0.clone(), path.clone());
                // A bucket may execute a request long after the client has given it up.
                let removal = tokio::spawn(async move {
                    while state.keeps.load(SeqCst) {
                        sleep(Duration::from_millis(5)).await;
                    }
                    state.objects.delete(&of).await
                });
                removal.await.unwrap().map(|()| path)
            }
        });
        removed.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.objects.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, after: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.objects.list_with_offset(prefix, after)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.objects.copy_opts(from, to, options).await
    }
}

/// A directory's node that is a large chunk.
fn node() -> (ChunkHash, Bytes) {
    let names = (0..2000).map(|at| tree::Name::new(format!("{at:0100}").as_bytes()).unwrap());
    let kind = tree::Kind::File { size: 0, content: tree::Content::Inline(Bytes::new()), link: 0 };
    let entry = tree::Entry { kind, attributes: tree::Attributes::default() };
    let entries: Vec<_> = names.map(|name| (name, entry.clone())).collect();
    let mut nodes = Nodes(Vec::new());
    tree::write_directory(&entries, &mut nodes).unwrap();
    nodes.0.into_iter().find(|(_, bytes)| bytes.len() > crate::SMALL_BYTES_MAX).unwrap()
}

struct Nodes(Vec<(ChunkHash, Bytes)>);

impl tree::Sink for Nodes {
    type Error = std::convert::Infallible;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> std::result::Result<(), Self::Error> {
        self.0.push((hash, bytes));
        Ok(())
    }
}

fn store(name: &str) -> (Faulty, Temporary, Chunks) {
    let (bucket, dir) = (Faulty::default(), Temporary::new(name));
    bucket.choose(&dir, "s3://bucket/p").unwrap();
    let store = bucket.open(&dir).unwrap();
    (bucket, dir, store)
}

#[track_caller]
fn refused<T: fmt::Debug>(name: &str, result: std::result::Result<T, ChunkError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.name(), name, "{error}");
    error.to_string()
}

#[test]
fn large_content_is_in_the_bucket_and_all_else_on_the_disk() {
    let (bucket, dir, store) = store("bucket-places");
    let chunks = [large(1), large(2), chunk(500, 3), node()];
    store.put(&chunks).unwrap();
    store.put(&chunks).unwrap();
    assert_eq!(bucket.names().len(), 2);
    let is_far: Vec<_> = chunks.iter().map(|(hash, _)| store.is_in_bucket(hash).unwrap()).collect();
    assert_eq!(is_far, [true, true, false, false]);
    drop(store);
    let store = bucket.open(&dir).unwrap();
    assert_has(&store, &chunks, "after a restart");
    assert_eq!(store.size().unwrap().0, 4);
    let mut seen = 0;
    store
        .verify(|_, condition| {
            assert_eq!(condition, Condition::Whole);
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, 4);
    let swept = store.sweep(|hash| *hash == chunks[0].0, |_| {}).unwrap();
    assert_eq!((swept.chunks, swept.leftovers), (3, 0));
    assert_eq!(bucket.names().len(), 1);
    assert_has(&store, &chunks[..1], "after a sweep");
}

#[test]
fn markers_and_names_are_those_of_the_format() {
    let (bucket, dir, store) = store("bucket-format");
    store.put(&[large(1)]).unwrap();
    let marker = std::fs::read_to_string(dir.path().join("thorp-chunks")).unwrap();
    let number = marker.strip_prefix("thorp chunks\nformat 2\nbucket s3://bucket/p\nstore ").unwrap();
    assert!(number.len() == 17 && u64::from_str_radix(number.trim_end(), 16).is_ok(), "{marker}");
    let read = async { bucket.0.objects.get(&Path::from("p/thorp-chunks")).await.unwrap().bytes().await.unwrap() };
    let read = runtime().block_on(read);
    assert_eq!(read, format!("thorp chunks in a bucket\nformat 1\nstore {number}"));
    let (name, hash) = (bucket.names().remove(0), large(1).0.to_string());
    let put = name.strip_prefix(&format!("p/chunks/{}/{}.", &hash[..2], &hash[2..])).unwrap();
    assert!(put.len() == 16 && u64::from_str_radix(put, 16).is_ok(), "{name}");
}

#[test]
fn chunks_on_the_disk_stay_there_when_a_bucket_is_chosen() {
    let (bucket, dir) = (Faulty::default(), Temporary::new("bucket-later"));
    let chunks = [large(1), large(2)];
    bucket.open(&dir).unwrap().put(&chunks[..1]).unwrap();
    bucket.choose(&dir, "s3://bucket/p").unwrap();
    let store = bucket.open(&dir).unwrap();
    store.put(&chunks).unwrap();
    assert_has(&store, &chunks, "both");
    assert_eq!(bucket.names().len(), 1);
    assert_eq!(store.sweep(|_| true, |_| {}).unwrap().leftovers, 0);
    store.sweep(|_| false, |_| {}).unwrap();
    assert_eq!((store.size().unwrap(), bucket.names().len()), ((0, 0), 0));
}

#[test]
fn a_bucket_that_fails_refuses_a_put_as_a_whole() {
    let (bucket, _dir, store) = store("bucket-fails");
    let chunks = [large(1), chunk(500, 2)];
    bucket.0.fails.store(true, SeqCst);
    let said = refused("bucket", store.put(&chunks));
    assert!(said.contains("cannot read from s3://bucket/p: ") && said.contains("it is on fire"), "{said}");
    assert_eq!(store.bucket_trouble(), Some(said));
    assert_eq!(store.missing(&hashes(&chunks)).unwrap(), hashes(&chunks));
    bucket.0.fails.store(false, SeqCst);
    store.put(&chunks).unwrap();
    bucket.0.fails.store(true, SeqCst);
    refused("bucket", store.get(&chunks[0].0));
    assert_eq!(store.missing(&hashes(&chunks)).unwrap(), [], "a bucket that fails says nothing about its chunks");
    refused("bucket", store.verify(|_, _| {}));
    assert!(store.get(&chunks[1].0).unwrap().is_some(), "what is on the disk is read");
    bucket.0.fails.store(false, SeqCst);
    assert_has(&store, &chunks, "it works again");
    assert_eq!(store.bucket_trouble(), None);
}

#[test]
fn a_bucket_that_hangs_delays_nobody_else() {
    let (bucket, _dir, store) = store("bucket-hangs");
    bucket.0.hangs.store(true, SeqCst);
    let begun = Instant::now();
    thread::scope(|scope| {
        let far = scope.spawn(|| refused("bucket", store.put(&[large(1)])));
        for seed in 0..5 {
            store.put(&[chunk(500, 100 + seed)]).unwrap();
        }
        assert!(!far.is_finished(), "the others took {:?}", begun.elapsed());
        assert!(far.join().unwrap().contains("no answer within 2 s"));
    });
    assert!(begun.elapsed() < WITHIN * 10, "{:?}", begun.elapsed());
}

#[test]
fn who_waits_for_a_bucket_can_be_sent_home() {
    let (bucket, _dir, store) = store("bucket-ends");
    store.put(&[large(0)]).unwrap();
    bucket.0.hangs.store(true, SeqCst);
    thread::scope(|scope| {
        let waits = scope.spawn(|| refused("bucket", store.put(&[large(1)])));
        while bucket.0.under_way.load(SeqCst) == 0 {
            thread::yield_now();
        }
        store.end_bucket();
        assert!(waits.join().unwrap().contains("this process is closing it"));
    });
    refused("bucket", store.put(&[large(1)]));
}

#[test]
fn damage_in_the_bucket_is_found_and_repaired() {
    let (bucket, _dir, store) = store("bucket-damage");
    let chunks = [large(1), large(2)];
    for harm in ["other bytes", "gone"] {
        store.put(&chunks).unwrap();
        if harm == "gone" {
            bucket.remove_all("/chunks/");
        } else {
            bucket.change_all(b"other bytes");
        }
        let said = refused("chunk-damaged", store.get(&chunks[0].0));
        assert!(said.contains(" in s3://bucket/p/chunks/"), "{said}");
        assert_eq!(store.missing(&hashes(&chunks)).unwrap(), hashes(&chunks[..1]), "{harm}");
        let mut damaged = 0;
        store.verify(|_, condition| damaged += usize::from(condition == Condition::Damaged)).unwrap();
        assert_eq!(damaged, 2, "{harm}");
        store.put(&chunks).unwrap();
        assert_has(&store, &chunks, harm);
        assert_eq!(store.remove_leftovers().unwrap(), 0);
        assert_eq!((bucket.names().len(), store.size().unwrap().0), (2, 2), "{harm}");
    }
}

#[test]
fn a_bucket_without_the_marker_is_not_ours() {
    let (bucket, dir, store) = store("bucket-emptied");
    store.put(&[large(1)]).unwrap();
    bucket.remove_all("");
    refused("bucket-emptied", store.get(&large(1).0));
    assert_eq!(store.missing(&[large(1).0]).unwrap(), [], "its chunks are not called missing");
    drop(store);
    let store = bucket.open(&dir).unwrap();
    refused("bucket-emptied", store.put(&[large(2)]));
    assert!(bucket.names().is_empty());
}

#[test]
fn each_store_has_a_place_of_its_own() {
    let (bucket, dir, first) = store("bucket-first");
    let other = Temporary::new("bucket-second");
    refused("bucket-taken", bucket.choose(&other, "s3://bucket/p"));
    bucket.choose(&other, "s3://bucket/q").unwrap();
    let second = bucket.open(&other).unwrap();
    first.put(&[large(1)]).unwrap();
    second.put(&[large(1)]).unwrap();
    assert_eq!(second.sweep(|_| false, |_| {}).unwrap().chunks, 1);
    assert_has(&first, &[large(1)], "the other store's sweep");
    drop((first, second));
    let said = refused("other-bucket", bucket.choose(&dir, "s3://bucket/r"));
    assert!(said.contains("are in s3://bucket/p, and s3://bucket/r does not have them"), "{said}");
    refused("bucket-taken", bucket.choose(&dir, "s3://bucket/q"));
    // Without objects there is nothing to lose.
    bucket.choose(&other, "s3://bucket/r").unwrap();
    // A copy of all objects is the same place.
    for name in bucket.names().into_iter().chain(["p/thorp-chunks".to_owned()]).filter(|name| name.starts_with('p')) {
        let (from, to) = (Path::from(name.as_str()), Path::from(name.replacen('p', "moved", 1)));
        runtime().block_on(async { bucket.0.objects.copy(&from, &to).await.unwrap() });
    }
    bucket.choose(&dir, "s3://bucket/moved").unwrap();
    bucket.remove_all("p/");
    assert_has(&bucket.open(&dir).unwrap(), &[large(1)], "moved");
}

/// The removal of a chunk that the bucket executes when the chunk is there again.
#[test]
fn a_late_removal_does_not_meet_the_next_put() {
    let (bucket, _dir, store) = store("bucket-late");
    store.put(&[large(1)]).unwrap();
    bucket.0.keeps.store(true, SeqCst);
    store.remove(&[large(1).0]).unwrap();
    assert_eq!(store.missing(&[large(1).0]).unwrap(), [large(1).0]);
    store.put(&[large(1)]).unwrap();
    assert_eq!(bucket.names().len(), 2);
    bucket.0.keeps.store(false, SeqCst);
    while bucket.names().len() > 1 {
        thread::yield_now();
    }
    assert_has(&store, &[large(1)], "put again");
}

#[test]
fn objects_outside_the_table_are_removed() {
    let (bucket, _dir, store) = store("bucket-leftovers");
    store.put(&[large(1)]).unwrap();
    let names = bucket.names();
    let stray = [format!("{}.{:016x}", names[0].rsplit_once('.').unwrap().0, 7), "p/chunks/notes.txt".to_owned()];
    for name in &stray {
        runtime().block_on(async { bucket.0.objects.put(&Path::from(name.as_str()), "left".into()).await.unwrap() });
    }
    assert_eq!(store.remove_leftovers().unwrap(), 1);
    let left: Vec<_> = bucket.names();
    assert!(left.len() == 2 && left.contains(&names[0]) && left.contains(&stray[1]), "{left:?}");
    assert_has(&store, &[large(1)], "it stays");
}

#[test]
fn threads_that_put_the_same_chunk_leave_one_object_and_sweeps_spare_it() {
    let (bucket, _dir, store) = store("bucket-threads");
    bucket.0.put_ms.store(20, SeqCst);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let puts: Vec<_> = (0..4).map(|_| scope.spawn(|| store.put(&[large(1), large(2)]).unwrap())).collect();
        let sweeps = scope.spawn(|| {
            while !is_over.load(SeqCst) {
                store.remove_leftovers().unwrap();
            }
        });
        for put in puts {
            put.join().unwrap();
        }
        is_over.store(true, SeqCst);
        sweeps.join().unwrap();
    });
    assert_has(&store, &[large(1), large(2)], "all threads");
    store.remove_leftovers().unwrap();
    assert_eq!(bucket.names().len(), 2);
}

#[test]
fn many_chunks_are_on_their_way_at_once() {
    let (bucket, _dir, store) = store("bucket-many");
    bucket.0.put_ms.store(50, SeqCst);
    let chunks: Vec<_> = (0..200).map(large).collect();
    let begun = Instant::now();
    store.put(&chunks).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "one by one takes 10 s: {:?}", begun.elapsed());
    let most = bucket.0.under_way_max.load(SeqCst);
    assert!((32..=64).contains(&most), "{most} at once");
}

#[test]
fn an_interrupted_choice_is_taken_up() {
    let (bucket, dir) = (Faulty::default(), Temporary::new("bucket-choice"));
    bucket.0.fails.store(true, SeqCst);
    refused("bucket", bucket.choose(&dir, "s3://bucket/p"));
    bucket.0.fails.store(false, SeqCst);
    bucket.choose(&dir, "s3://bucket/p").unwrap();
    bucket.0.fails.store(true, SeqCst);
    bucket.choose(&dir, "s3://bucket/p").unwrap();
    bucket.0.fails.store(false, SeqCst);
    bucket.remove_all("thorp-chunks");
    let store = bucket.open(&dir).unwrap();
    store.put(&[large(1)]).unwrap();
    assert_has(&store, &[large(1)], "claimed by the first put");
}
