//! Reads of shared memory over the provider of sockets, in one process, by the library in C as `cargo xtask shim`
//! builds it.

use fabric::{NAME_BYTES_MAX, READS_MAX, Reader, Shared, Shim, Window};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::time::Duration;

const PROVIDER: &str = "tcp;ofi_rxm";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WITHIN: Duration = Duration::from_secs(20);

/// The library; none, if it was not built, as where libfabric is not installed. In CI it has to be there.
fn shim() -> Option<Shim> {
    if std::env::var_os("THORP_FABRIC_SHIM").is_none() {
        assert!(std::env::var_os("CI").is_none(), "cargo xtask test builds the library");
        println!("skipped: no library, see cargo xtask shim");
        return None;
    }
    Some(Shim::load().unwrap())
}

fn memory(words: u64) -> Arc<[AtomicU64]> {
    (0..words).map(|word| AtomicU64::new(3 * word)).collect()
}

/// An owner of the memory that can be shared.
struct Owner(Arc<[AtomicU64]>);

impl AsRef<[AtomicU64]> for Owner {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn share(shim: Shim, words: &Arc<[AtomicU64]>) -> (Shared, Reader) {
    let shared = shim.share(PROVIDER, HERE, Arc::new(Owner(words.clone()))).unwrap();
    let reader = shim.open(PROVIDER, shared.window()).unwrap();
    (shared, reader)
}

#[test]
fn words_are_read_as_they_are() {
    let Some(shim) = shim() else { return };
    let words = memory(5000);
    let (_shared, mut reader) = share(shim, &words);
    for count in [0, 1, 7, READS_MAX as u64] {
        let at: Vec<_> = (0..count).map(|number| number * 4).collect();
        let expected: Vec<_> = at.iter().map(|at| 3 * at).collect();
        assert_eq!(reader.read(&at, WITHIN), Ok(expected));
    }
    words[8].store(u64::MAX, Release);
    assert_eq!(reader.read(&[8, 9], WITHIN), Ok(vec![u64::MAX, 27]));
    let too_many = vec![0; READS_MAX + 1];
    assert!(reader.read(&too_many, WITHIN).is_err());
    assert_eq!(reader.read(&[9], WITHIN), Ok(vec![27]));
}

#[test]
fn nothing_beside_the_memory_is_read() {
    let Some(shim) = shim() else { return };
    let (shared, mut reader) = share(shim, &memory(512));
    assert!(reader.read(&[512], WITHIN).is_err());
    assert!(reader.read(&[0], WITHIN).unwrap_err().to_string().contains("not read any more"));
    // Others read on.
    assert_eq!(shim.open(PROVIDER, shared.window()).unwrap().read(&[1], WITHIN), Ok(vec![3]));
}

#[test]
fn memory_that_is_not_shared_any_more_is_not_read() {
    let Some(shim) = shim() else { return };
    let (shared, mut reader) = share(shim, &memory(512));
    assert_eq!(reader.read(&[1], WITHIN), Ok(vec![3]));
    let window = shared.window().clone();
    drop(shared);
    let soon = Duration::from_millis(200);
    assert!(reader.read(&[1], soon).is_err());
    drop(reader);
    assert!(shim.open(PROVIDER, &window).unwrap().read(&[1], soon).is_err());
}

#[test]
fn a_window_that_is_none_is_refused() {
    let Some(shim) = shim() else { return };
    let window = |name| Window { name, base: 0, key: 0 };
    let unknown = shim.open("no such", &window(vec![0; 16])).unwrap_err();
    assert!(unknown.to_string().contains("no such provider"), "{unknown}");
    assert!(shim.open(PROVIDER, &window(vec![])).is_err());
    assert!(shim.open(PROVIDER, &window(vec![7; NAME_BYTES_MAX + 1])).is_err());
    assert!(shim.share("no such", HERE, Arc::new(Owner(memory(512)))).is_err());
    let any = shim.share(PROVIDER, IpAddr::V4(Ipv4Addr::UNSPECIFIED), Arc::new(Owner(memory(512))));
    assert!(any.unwrap_err().to_string().contains("0.0.0.0"));
}

#[test]
fn a_library_that_is_none_is_refused() {
    let refused = |path: &str| Shim::load_from(Path::new(path)).unwrap_err().to_string();
    assert!(refused("/no/such/library").contains("THORP_FABRIC_SHIM"));
    assert!(refused("libc.so.6").contains("another library"));
}
