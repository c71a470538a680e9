//! The library in C between this program and libfabric, `shim/thorp_fabric.c`: how it is found, and its calls. All
//! unsafe code of this crate is here.
//!
//! 1. The library is loaded for good, so its functions are there as long as the process. It says which calls it has, by
//!    a number that changes with them.
//! 2. Memory that is shared stays where it is as long as it is: [`Shared`] keeps its owner. Others only read it, and it
//!    is of atomics: nothing here relies on its values.
//! 3. A reader's words land in memory of the library, which goes when no read is under way any more.
//! 4. Signals are the program's: the handlers are put back that were there before the library was loaded. A library
//!    that libfabric loads (`libpsm_infinipath`) has SIGTERM and SIGINT end the process at once, and nothing is said to
//!    anybody. It does so while the libraries are being loaded, so a program loads them before there is something to
//!    lose.
#![expect(unsafe_code, reason = "libfabric is a library in C, which is loaded at run time")]

use crate::window::{NAME_BYTES_MAX, Window};
use std::env;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::{transmute, transmute_copy};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The name of the library.
pub const SHIM: &str = "libthorp_fabric.so";

/// Where it is, if it is not beside the program and not where the system looks for libraries.
const SHIM_PATH: &str = "THORP_FABRIC_SHIM";

/// Words that are read at a time, at most.
pub const READS_MAX: usize = 1025;

/// The number of its calls as they are here.
const CALLS: u32 = 1;

/// The room for why something failed.
const WHY_BYTES: usize = 256;

type Why = [c_char; WHY_BYTES];

#[repr(C)]
struct RawShared {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawReader {
    _opaque: [u8; 0],
}

type CallsFn = unsafe extern "C" fn() -> u32;
type ShareFn = unsafe extern "C" fn(
    provider: *const c_char,
    node: *const c_char,
    memory: *mut c_void,
    bytes: usize,
    out: *mut *mut RawShared,
    name: *mut u8,
    name_bytes: *mut usize,
    base: *mut u64,
    key: *mut u64,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int;
type UnshareFn = unsafe extern "C" fn(shared: *mut RawShared);
type OpenFn = unsafe extern "C" fn(
    provider: *const c_char,
    name: *const u8,
    base: u64,
    key: u64,
    out: *mut *mut RawReader,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int;
type ReadFn = unsafe extern "C" fn(
    reader: *mut RawReader,
    at: *const u64,
    count: usize,
    words: *mut u64,
    within_ms: u32,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int;
type CloseFn = unsafe extern "C" fn(reader: *mut RawReader);

/// The system's loader of libraries, for the whole life of the process.
const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
    fn sigaction(signal: c_int, new: *const Handler, old: *mut Handler) -> c_int;
}

/// The signals of every system.
const SIGNALS: RangeInclusive<c_int> = 1..=31;

/// The handler of a signal, as the system has it: more room than any system's takes. It is kept, and never looked at.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Handler([u8; 256]);

/// The handlers of signals at a moment; none for what the system does not tell.
struct Handlers(Vec<(c_int, Handler)>);

impl Handlers {
    fn now() -> Self {
        let of = |signal| {
            let mut handler = Handler([0; 256]);
            // SAFETY: there is room for what the system writes, and nothing is changed.
            let error = unsafe { sigaction(signal, null(), &raw mut handler) };
            (error == 0).then_some((signal, handler))
        };
        Self(SIGNALS.filter_map(of).collect())
    }

    /// Has these again.
    fn put_back(&self) {
        for (signal, handler) in &self.0 {
            // SAFETY: the system has given this for the signal. It refuses those of signals that cannot be handled.
            unsafe { sigaction(*signal, handler, null_mut()) };
        }
    }
}

/// Why memory is not shared, or not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricError(String);

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for FabricError {}

/// The library. It is cheap to clone.
#[derive(Clone, Copy)]
pub struct Shim {
    share: ShareFn,
    unshare: UnshareFn,
    open: OpenFn,
    read: ReadFn,
    close: CloseFn,
}

impl Shim {
    /// Loads it: from where `THORP_FABRIC_SHIM` says; else from beside the program, or from where the system looks.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn load() -> Result<Self, FabricError> {
        if let Some(path) = env::var_os(SHIM_PATH) {
            return Self::load_from(Path::new(&path));
        }
        let beside = env::current_exe().ok().map(|program| program.with_file_name(SHIM));
        match beside.filter(|path| path.is_file()) {
            Some(path) => Self::load_from(&path),
            None => Self::load_from(&PathBuf::from(SHIM)),
        }
    }

    /// Loads it from there; a path without a folder is looked for by the system.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn load_from(path: &Path) -> Result<Self, FabricError> {
        let none = |why: String| {
            FabricError(format!(
                "cannot load {} ({why}): compile crates/web/fabric/shim/thorp_fabric.c as it says, and name the library by \
                 {SHIM_PATH}",
                path.display()
            ))
        };
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| none(error.to_string()))?;
        let handlers = Handlers::now();
        // SAFETY: the name ends with a zero. A library's own code runs as it is loaded: the path is the operator's.
        let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        handlers.put_back();
        let library = NonNull::new(library).ok_or_else(|| none(last_error()))?;
        let calls = symbol(library, c"thorp_fabric_calls").ok_or_else(|| none("it is another library".to_owned()))?;
        // SAFETY: the library has a function of this name, which is this one's in every version of it.
        let calls = unsafe { transmute::<NonNull<c_void>, CallsFn>(calls)() };
        if calls != CALLS {
            return Err(none(format!("it has calls {calls}, and this program knows {CALLS}")));
        }
        // SAFETY: the types are those of the library's functions in the version that it says it is of.
        let found = unsafe {
            (
                function::<ShareFn>(library, c"thorp_fabric_share"),
                function::<UnshareFn>(library, c"thorp_fabric_unshare"),
                function::<OpenFn>(library, c"thorp_fabric_open"),
                function::<ReadFn>(library, c"thorp_fabric_read"),
                function::<CloseFn>(library, c"thorp_fabric_close"),
            )
        };
        let (Some(share), Some(unshare), Some(open), Some(read), Some(close)) = found else {
            return Err(none("it lacks a call".to_owned()));
        };
        Ok(Self { share, unshare, open, read, close })
    }

    /// Lets other machines read memory, at an address of this one, as long as what this gives is kept.
    ///
    /// # Errors
    /// Why the provider cannot do that; an address that is any of this machine.
    pub fn share<M>(self, provider: &str, address: IpAddr, memory: Arc<M>) -> Result<Shared, FabricError>
    where
        M: AsRef<[AtomicU64]> + Send + Sync + 'static,
    {
        if address.is_unspecified() {
            return Err(FabricError(format!(
                "memory is read at one address of a machine, and {address} is any of them: say which"
            )));
        }
        let (provider_text, address) = (text(provider)?, text(&address.to_string())?);
        let words: &[AtomicU64] = (*memory).as_ref();
        let (start, bytes) = (words.as_ptr(), size_of_val(words));
        let (mut out, mut name, mut name_bytes) = (null_mut(), [0; NAME_BYTES_MAX], NAME_BYTES_MAX);
        let (mut base, mut key, mut why) = (0, 0, [0; WHY_BYTES]);
        // SAFETY: each pointer is to what the call expects, of the size that it is told. The memory stays where it is
        // until the call's outcome is closed, as `Shared` keeps it; it is registered to be read alone.
        let error = unsafe {
            (self.share)(
                provider_text.as_ptr(),
                address.as_ptr(),
                start.cast_mut().cast(),
                bytes,
                &raw mut out,
                name.as_mut_ptr(),
                &raw mut name_bytes,
                &raw mut base,
                &raw mut key,
                why.as_mut_ptr(),
                WHY_BYTES,
            )
        };
        let raw = NonNull::new(out).filter(|_| error == 0).ok_or_else(|| said(provider, &why))?;
        let name = name[..name_bytes.min(NAME_BYTES_MAX)].to_vec();
        let window = Window { name, base, key };
        Ok(Shared { raw, unshare: self.unshare, window, _memory: memory })
    }

    /// Opens memory that another machine shares, by the same provider. It shows at the first read whether that is so.
    ///
    /// # Errors
    /// Why the provider cannot do that.
    pub fn open(self, provider: &str, window: &Window) -> Result<Reader, FabricError> {
        let provider_text = text(provider)?;
        if window.name.is_empty() || window.name.len() > NAME_BYTES_MAX {
            return Err(FabricError(format!("the home's endpoint has a name of {} bytes", window.name.len())));
        }
        // A provider reads as many bytes as its names have, whatever came.
        let mut name = [0; NAME_BYTES_MAX];
        name[..window.name.len()].copy_from_slice(&window.name);
        let (mut out, mut why) = (null_mut(), [0; WHY_BYTES]);
        // SAFETY: each pointer is to what the call expects. A name is of at most so many bytes.
        let error = unsafe {
            let (base, key) = (window.base, window.key);
            (self.open)(provider_text.as_ptr(), name.as_ptr(), base, key, &raw mut out, why.as_mut_ptr(), WHY_BYTES)
        };
        let raw = NonNull::new(out).filter(|_| error == 0).ok_or_else(|| said(provider, &why))?;
        Ok(Reader { raw, read: self.read, close: self.close, is_lost: false })
    }
}

impl fmt::Debug for Shim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shim").finish_non_exhaustive()
    }
}

/// Memory of this process that other machines may read.
pub struct Shared {
    raw: NonNull<RawShared>,
    unshare: UnshareFn,
    window: Window,
    _memory: Arc<dyn Send + Sync>,
}

// SAFETY: it is opened for any thread, and called by its owner alone.
unsafe impl Send for Shared {}
// SAFETY: a shared reference to it calls nothing.
unsafe impl Sync for Shared {}

impl Shared {
    /// Everything that its readers have to know.
    pub fn window(&self) -> &Window {
        &self.window
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was given by the library, and is no longer used. The memory goes after this.
        unsafe { (self.unshare)(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("window", &self.window).finish_non_exhaustive()
    }
}

/// Memory of another machine.
pub struct Reader {
    raw: NonNull<RawReader>,
    read: ReadFn,
    close: CloseFn,
    /// A read has failed: others may be under way still.
    is_lost: bool,
}

// SAFETY: it is opened for any thread, and called by one at a time.
unsafe impl Send for Reader {}

impl Reader {
    /// Reads words at these places, all of them after this was called; at most [`READS_MAX`].
    ///
    /// # Errors
    /// They were not read within this time, or cannot be. Nothing is read by it any more.
    pub fn read(&mut self, at: &[u64], within: Duration) -> Result<Vec<u64>, FabricError> {
        if self.is_lost || at.len() > READS_MAX {
            return Err(FabricError("the home's memory is not read any more".to_owned()));
        }
        let (mut words, mut why) = (vec![0; at.len()], [0; WHY_BYTES]);
        let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        // SAFETY: there are as many places and as much room as it is told. It is called by one thread, as this is
        // `&mut`.
        let error = unsafe {
            let raw = self.raw.as_ptr();
            (self.read)(raw, at.as_ptr(), at.len(), words.as_mut_ptr(), within_ms, why.as_mut_ptr(), WHY_BYTES)
        };
        if error == 0 {
            return Ok(words);
        }
        self.is_lost = true;
        Err(said("libfabric", &why))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: it was given by the library, and is no longer used.
        unsafe { (self.close)(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("is_lost", &self.is_lost).finish_non_exhaustive()
    }
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the library is loaded, and the name ends with a zero.
    NonNull::new(unsafe { dlsym(library.as_ptr(), name.as_ptr()) })
}

/// A function of the library.
///
/// # Safety
/// `F` is the type of a pointer to the function of this name.
unsafe fn function<F: Copy>(library: NonNull<c_void>, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    let symbol = symbol(library, name)?;
    // SAFETY: both are pointers, and the caller has said that the function is of this type.
    Some(unsafe { transmute_copy(&symbol) })
}

fn last_error() -> String {
    // SAFETY: the text is the loader's, and is there until its next call by this thread.
    let text = unsafe { dlerror() };
    if text.is_null() {
        return "no reason is given".to_owned();
    }
    // SAFETY: it is a text that ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn text(text: &str) -> Result<CString, FabricError> {
    CString::new(text).map_err(|_| FabricError("a name has a zero in it".to_owned()))
}

fn said(of: &str, why: &Why) -> FabricError {
    let bytes: Vec<u8> = why.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    FabricError(format!("{of}: {}", String::from_utf8_lossy(&bytes)))
}
