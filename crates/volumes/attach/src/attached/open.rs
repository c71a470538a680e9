//! Attaching: what is checked, what is recovered, and in which order it is made durable.
//!
//! ```text
//!   lock the cache, lock home --> install home's journal --> whose is it? --> scan the log
//!     --> the cache's next attachment --> home's ownership: that one, and a new epoch --> home's mark: of this cache
//!     --> the cache's marker: a new incarnation --> open for requests
//! ```
//! A cache is made, whole, before home says that it has anything: so a home never speaks of a cache that is not there.

use super::ahead::Ahead;
use super::attachment::{ATTACHMENT_NAME, Attachments, LOCK_NAME};
use super::config::{AttachConfig, LOG_BYTES_MAX, LOG_BYTES_MIN};
use super::copies::{CopiesConfig, Sessions};
use super::error::AttachError;
use super::known_home::{self, Beside, KNOWN_NAME};
use super::requests::Requests;
use super::runs::KnownRuns;
use super::status::Counts;
use super::{Attached, Core, State};
use crate::cache::{Clean, CleanFiles, DirtyWrites, SLOTS_MAX, Write, Writes};
use crate::clock::Clock;
use crate::control::CONTROL_NAME;
use crate::extents::{BLOCK, ExtentMap};
use crate::far::FarHome;
use crate::home::{Checks, FileHome, Home, HomeError, Ownership, beside, check_size, is_device, leave_word, split};
use crate::marker::Kind;
use crate::place::{Place, boot};
use crate::scrub::SCRUB_NAME;
use log::{Limits, Log, LogId, Made, Scan, is_segment};
use machines::messages::holder::{Epoch, Sequence, Stamp};
use machines::{Ack, CacheWentBack, Degraded, HomeState, HostId, KnownCache, Owner, OwnerConfig, Recovered, WentBack};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use types::{Broken, Time};
use vfs::{Directory, Doing, FileError, Files, Lock, Locking, make_directory, random};

const MARKER: Kind = Kind { title: "thorp volume cache", format: 1, fields: &["volume", "cache", "incarnation"] };
const MARKER_NAME: &str = "thorp-volume-cache";

/// The registry is waited for this long.
const LEASE_WITHIN: Duration = Duration::from_secs(15);

/// How long holders may take until they are live, where writes are refused until then.
const COPIES_WITHIN: Duration = Duration::from_secs(10);

/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The directories that a volume is attached from.
pub(super) struct Places {
    pub(super) home_files: Arc<dyn Files>,
    pub(super) home_name: String,
    pub(super) beside: Arc<dyn Files>,
    /// Where these are, if home should keep word of that.
    pub(super) beside_at: Option<PathBuf>,
    pub(super) cache_files: Arc<dyn Files>,
    /// The cache, for people.
    pub(super) cache_place: String,
    /// The number of the machine's boot.
    pub(super) boot: u32,
}

/// The marker of a cache, as it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    pub(crate) volume: u64,
    pub(crate) cache: u64,
    pub(super) incarnation: u32,
}

impl Marker {
    pub(crate) fn read(files: &dyn Files) -> Result<Option<Self>, FileError> {
        let Some(values) = MARKER.read(files, MARKER_NAME)? else { return Ok(None) };
        let number = |at: usize| u64::from_str_radix(&values[at], 16).ok();
        let incarnation = number(2).and_then(|incarnation| u32::try_from(incarnation).ok());
        let marker = number(0).zip(number(1)).zip(incarnation);
        let marker = marker.map(|((volume, cache), incarnation)| Self { volume, cache, incarnation });
        let what = "a field has a value that was never written".to_owned();
        marker.map(Some).ok_or(FileError::Corrupt { file: files.path(MARKER_NAME), offset: 0, what })
    }

    pub(super) fn write(&self, files: &dyn Files) -> Result<(), FileError> {
        let values = [self.volume, self.cache, u64::from(self.incarnation)].map(|value| format!("{value:016x}"));
        MARKER.write(files, MARKER_NAME, &values)
    }
}

impl Attached {
    /// Attaches a volume.
    ///
    /// # Errors
    /// Why it cannot be. Nothing was lost or changed that a further attempt would miss.
    pub fn attach(config: &AttachConfig) -> Result<Self, AttachError> {
        if is_device(&config.home) && config.beside.is_none() {
            return Err(AttachError::Device(config.home.clone()));
        }
        // Under whatever name: the files beside it are those of the one.
        let home = config.home.canonicalize().doing("open", || config.home.clone())?;
        let (above, name) = split(&home)?;
        let beside = beside(&home, config.beside.as_deref())?;
        make_directory(&config.cache)?;
        let cache = config.cache.canonicalize().unwrap_or_else(|_| config.cache.clone());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let places = Places {
            home_files: Arc::new(Directory::new(above)),
            home_name: name,
            beside: Arc::new(Directory::new(&beside)),
            beside_at: (beside != above && !is_device(&home)).then_some(beside),
            cache_files: Arc::new(Directory::new(&config.cache)),
            cache_place: format!("{host}:{}", cache.display()),
            boot: boot(),
        };
        Self::run(Core::open(places, config)?)
    }

    /// Attaches a volume whose home is in another process; `config.home` and `config.beside` are not looked at. It is
    /// attached under the registry's epoch, if the volume is in one, and else under the one behind that which home
    /// knows. Whether another cache has writes that are not written back is for the caller to know: home does not.
    ///
    /// # Errors
    /// Why it cannot be. Nothing was lost or changed that a further attempt would miss.
    pub fn attach_far(home: FarHome, config: &AttachConfig) -> Result<Self, AttachError> {
        make_directory(&config.cache)?;
        let cache_files: Arc<dyn Files> = Arc::new(Directory::new(&config.cache));
        Self::run(Core::open_far(home, &cache_files, config)?)
    }

    pub(super) fn run(core: Core) -> Result<Self, AttachError> {
        let attached = Self { core: Arc::new(core), threads: Mutex::default() };
        attached.start("volume-keep", |core| core.keep())?;
        attached.start("volume-home", |core| core.write_back())?;
        if matches!(attached.core.home, Home::Far(_)) {
            attached.start("volume-ahead", |core| core.keep_ahead())?;
        }
        if attached.core.copies.is_some() {
            attached.start("volume-links", Core::tend_links)?;
            attached.start("volume-change", |core| core.change_registry())?;
            attached.start("volume-watch", |core| core.watch_registry())?;
            attached.start("volume-tell", Core::tell_home)?;
            attached.core.await_lease()?;
            attached.core.await_copies();
        }
        Ok(attached)
    }

    fn start(&self, name: &str, run: fn(&Arc<Core>)) -> Result<(), AttachError> {
        let core = self.core.clone();
        let run = move || {
            let ran = vfs::contain(|| {
                run(&core);
                Ok(())
            });
            if let Err(error) = ran {
                core.fail(error.to_string());
            }
        };
        let thread: JoinHandle<()> =
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(AttachError::Thread)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Core {
    /// Opens home and cache, and begins a new epoch.
    pub(super) fn open(places: Places, config: &AttachConfig) -> Result<Self, AttachError> {
        let Places { home_files, home_name, beside, beside_at, cache_files, cache_place, boot } = places;
        let limits = limits(config.log_bytes)?;
        let slots = config.clean_bytes / BLOCK as u64;
        if slots > SLOTS_MAX {
            return Err(AttachError::CleanBytes(config.clean_bytes));
        }
        let lock = lock_cache(&*cache_files)?.ok_or_else(|| AttachError::CacheInUse(config.cache.clone()))?;
        let found = Marker::read(&*cache_files)?;
        let volume = found.map_or_else(random, |marker| Ok(marker.volume))?;
        let checks = Checks::new(boot, config.checks.clone());
        let mut home = FileHome::open(home_files.clone(), &home_name, beside, volume, &checks)?;
        check_size(&config.home, home.size())?;
        let volume = home.ownership().volume;
        // A cache that was never attached may still be that of a home which does not know of it.
        let is_first = home.ownership().epoch == 0;
        let is_other =
            |marker: Marker| marker.volume != volume || is_first && marker.incarnation > 0 && !config.is_forced;
        if found.is_some_and(is_other) {
            return Err(AttachError::OtherVolume(config.cache.clone()));
        }
        let known = known_home::read(&*cache_files, volume)?;
        let candidate = found.filter(|marker| is_first || marker.cache == home.ownership().cache);
        let candidate = candidate.map(|marker| FoundCache::read(&cache_files, marker, &home)).transpose()?;
        // If the volume has copies, a takeover compared them.
        let compared = candidate.as_ref().filter(|_| !is_first && config.copies.is_none());
        let beside_home = match compared.and_then(FoundCache::home_went_back) {
            Some(back) => Beside::Older(back),
            None => Beside::look(known, Stamp::ZERO, home.state()),
        };
        if !is_first {
            beside_home.check(config.is_forced)?;
        }
        let went_back = compared.map(|cache| cache.went_back(&*cache_files, &home)).transpose()?.flatten();
        if let Some(back) = went_back.filter(|_| home.ownership().is_dirty && !config.is_forced) {
            return Err(AttachError::CacheWentBack(back));
        }
        // The writes of a log do not fit an older home, nor those of an older log this one.
        let is_older = !is_first && matches!(beside_home, Beside::Older(_));
        let owner = candidate.filter(|_| !is_older && went_back.is_none());
        let was_lost = home.ownership().cache == 0 && !is_first;
        let is_elsewhere = home.ownership().is_dirty && !was_lost && owner.is_none();
        // A takeover has brought home what was not, where there are copies.
        if is_elsewhere && !config.is_forced && config.copies.is_none() {
            return Err(AttachError::DirtyElsewhere(home.ownership().place.clone()));
        }
        if let Some(marker) = found.filter(|marker| marker.incarnation > 0 && owner.is_none()) {
            let refused = if was_lost { AttachError::Lost } else { AttachError::Superseded };
            // Every write of an older cache was written back.
            if went_back.is_none() {
                expect_unneeded(&cache_files, marker, config, refused)?;
            }
            forget_marker(&*cache_files)?;
        }
        if owner.is_none() || config.copies.is_some() {
            home.finish()?;
        }
        let owner = match owner {
            Some(owner) => owner,
            None => FoundCache::read(&cache_files, create_cache(&*cache_files, volume, limits, config)?, &home)?,
        };
        let floor = owner.floor(home.ownership().epoch);
        let FoundCache { mut marker, scan, recovered, .. } = owner;
        let registered = config.copies.as_ref().map(|copies| &copies.view.entry);
        if let Some(entry) = registered.filter(|entry| entry.size > home.size()) {
            return Err(AttachError::Size(entry.size, home.size()));
        }
        // Before home is this cache's: the next start could no longer tell that others have had it.
        let keeps = |block| beside_home == Beside::Same && !recovered.has(block);
        let (clean_files, clean) = CleanFiles::open(cache_files.clone(), marker.cache, slots as usize, keeps)?;
        let epoch = registered.map_or(home.ownership().epoch + 1, |entry| entry.epoch.0);
        let attachment = begin_attachment(&*cache_files, &home, config)?;
        let (cache, place) = (marker.cache, cache_place);
        let ownership = Ownership { epoch, attachment, cache, is_dirty: true, place, ..home.ownership().clone() };
        if let Some(dir) = beside_at {
            leave_word(&*home_files, &home_name, &dir)?;
        }
        home.own(ownership, floor)?;
        known_home::write(&*cache_files, volume, home.state())?;
        marker.incarnation += 1;
        marker.write(&*cache_files)?;
        let log = Log::resume(cache_files.clone(), LogId(marker.cache), limits, marker.incarnation, &scan)?;
        make_room(&log, &*cache_files, config)?;
        // Writes before that were written back.
        log.free_with_next(recovered.first());
        let (home, recovered) = (Home::File(home), recovered.joined());
        Ok(Self::new(Parts { log, home, clean_files, clean, recovered, epoch: Epoch(epoch), lock }, config))
    }

    /// Waits until the registry has said that the volume is this host's.
    fn await_lease(&self) -> Result<(), AttachError> {
        self.carry_out(self.state(), None);
        let waits = |state: &mut State| !state.owner.may_read(self.now()) && state.failed.is_none();
        let waited = self.room.wait_timeout_while(self.state(), LEASE_WITHIN, waits);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_leased = !timeout.timed_out() && state.failed.is_none();
        if is_leased { Ok(()) } else { Err(AttachError::NoLease(LEASE_WITHIN)) }
    }

    /// Waits until there are as many copies as there should be, if writes are refused while there are not. Without the
    /// holders for that it is attached all the same, for its readers.
    fn await_copies(&self) {
        let refuses = self.copies.as_ref().is_some_and(|copies| copies.degraded == Degraded::Refuse);
        let begun = Instant::now();
        while refuses && begun.elapsed() < COPIES_WITHIN && self.state().owner.is_degraded() {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The same with a home elsewhere, which keeps a mark: what is not written back goes there flush by flush.
    fn open_far(home: FarHome, cache_files: &Arc<dyn Files>, config: &AttachConfig) -> Result<Self, AttachError> {
        let limits = limits(config.log_bytes)?;
        let slots = config.clean_bytes / BLOCK as u64;
        if slots > SLOTS_MAX {
            return Err(AttachError::CleanBytes(config.clean_bytes));
        }
        let lock = lock_cache(&**cache_files)?.ok_or_else(|| AttachError::CacheInUse(config.cache.clone()))?;
        let found = Marker::read(&**cache_files)?;
        let volume = home.volume().0;
        if found.is_some_and(|marker| marker.volume != volume) {
            return Err(AttachError::OtherVolume(config.cache.clone()));
        }
        let before = home.opened().map_err(HomeError::from)?;
        let known = known_home::read(&**cache_files, volume)?;
        let beside_home = Beside::look(known, Stamp::ZERO, known_home::of_far(&before));
        beside_home.check(config.is_forced)?;
        let is_older = matches!(beside_home, Beside::Older(_));
        if let Some(copies) = config.copies.as_ref().filter(|copies| copies.view.entry.size > before.size) {
            return Err(AttachError::Size(copies.view.entry.size, before.size));
        }
        // Of a volume that is in a registry a takeover has brought home what there was.
        let is_owner = |marker: &Marker| (marker.cache == before.owner || config.copies.is_some()) && !is_older;
        if let Some(marker) = found.filter(|marker| marker.incarnation > 0 && !is_owner(marker)) {
            give_up(cache_files, marker, config, AttachError::Superseded)?;
        }
        let mut marker = match found.filter(is_owner) {
            Some(marker) => marker,
            None => create_cache(&**cache_files, volume, limits, config)?,
        };
        let own = (before.epoch.next(), marker.cache);
        let (epoch, owner) = config.copies.as_ref().map_or(own, |copies| (copies.view.entry.epoch, copies.host.0));
        let is_same = marker.cache == before.owner && beside_home == Beside::Same;
        if !is_same {
            // Before home is this cache's: the next start could no longer tell that others have had it.
            CleanFiles::forget(&**cache_files)?;
        }
        let mark = home.fence(epoch, owner).map_err(HomeError::from)?;
        let (scan, mut recovered) = scan_log(cache_files, marker, mark)?;
        let mut drops_log = false;
        if let Some(floor) = recovered.floor.filter(|floor| floor.epoch == mark.epoch) {
            let found = HomeState { mark, ..known_home::of_far(&before) };
            let beside_home = Beside::look(known, floor, found);
            beside_home.check(config.is_forced)?;
            drops_log = matches!(beside_home, Beside::Older(_));
        }
        if drops_log {
            recovered = Recovery::new(scan.next_position());
        }
        // One that was lost lacks what went home without it (**ForgetLostCache**).
        let lacks_some = mark.sequence.0 >= scan.next_position();
        if let Some(known) = home.known() {
            known_home::write(&**cache_files, volume, known)?;
        }
        let keeps = |block| is_same && !drops_log && !lacks_some && !recovered.has(block);
        let (clean_files, clean) = CleanFiles::open(cache_files.clone(), marker.cache, slots as usize, keeps)?;
        marker.incarnation += 1;
        marker.write(&**cache_files)?;
        let log = Log::resume(cache_files.clone(), LogId(marker.cache), limits, marker.incarnation, &scan)?;
        make_room(&log, &**cache_files, config)?;
        if drops_log {
            log.free_with_next(log.durable() + 1);
        }
        let home = Home::Far(home);
        Ok(Self::new(Parts { log, home, clean_files, clean, recovered, epoch, lock }, config))
    }

    pub(super) fn new(parts: Parts, config: &AttachConfig) -> Self {
        let Parts { log, home, clean_files, clean, mut recovered, epoch, lock } = parts;
        let durable = log.durable();
        if config.copies.is_some() {
            // It is written back, or it was not the volume's any more when it was written.
            recovered = Recovery::new(durable + 1);
            log.free_with_next(durable + 1);
        }
        let before = durable - recovered.writes.len() as u64;
        let at = |sequence, epoch| Stamp { epoch, sequence: Sequence(sequence), ..Stamp::ZERO };
        let owner_config = OwnerConfig {
            ack: config.ack,
            age_max: config.age_max,
            // A write that is flushed alone takes a block more than its own.
            record_bytes: BLOCK as u64,
            ..OwnerConfig::new(home.size(), config.log_bytes)
        };
        let found = &recovered.flushes;
        let home_stamp = found.first().map_or(at(before, Epoch(0)), |found| at(before, Epoch(found.last.epoch.0 - 1)));
        let owner = match &config.copies {
            Some(copies) => owner_of(copies, owner_config),
            None => Owner::resume(Time::ZERO, owner_config, epoch, home_stamp, found),
        };
        let size = AtomicU64::new(owner.size());
        let state = State {
            owner,
            sessions: Sessions::default(),
            // A home of this host is a file, which the system reads ahead.
            ahead: Ahead::new(if matches!(home, Home::Far(_)) { clean.len().1 } else { 0 }),
            dirty: recovered.writes,
            clean,
            requests: Requests::default(),
            to_home: None,
            recovered: if recovered.is_joined { durable } else { 0 },
            write_backs: 0,
            runs: KnownRuns::default(),
            unflushed: None,
            wants_flush: true,
            counts: Counts::default(),
            rooms: 0,
            home_error: None,
            registry_error: None,
            read_error: None,
            clean_error: None,
            lost_cache: None,
            has_home_gone_back: false,
            failed: None,
            is_for_keeper: false,
            is_detaching: false,
            is_detached: false,
            is_released: false,
            is_ended: false,
            is_closing: false,
        };
        Self {
            log,
            home,
            clean: clean_files,
            state: Mutex::new(state),
            room: Condvar::new(),
            keep: Condvar::new(),
            write_back: Condvar::new(),
            drained: Condvar::new(),
            base: if config.copies.is_some() { durable } else { 0 },
            cache_failure: config.cache_failure,
            copies: config.copies.clone(),
            size,
            operated: Mutex::new(()),
            tasks: Condvar::new(),
            ahead: Condvar::new(),
            arrived: Condvar::new(),
            changes: Condvar::new(),
            tells: Condvar::new(),
            clock: Clock::start(),
            waits_for_log: config.ack == Ack::Write,
            cache_lock: Mutex::new(Some(lock)),
        }
    }
}

/// The owner of a volume that is in a registry.
fn owner_of(copies: &CopiesConfig, config: OwnerConfig) -> Owner {
    let CopiesConfig { volume, host, domain, ref view, spare_holders, degraded, silence, replace_after, .. } = *copies;
    let holders = view.entry.copies.saturating_sub(1).saturating_add(spare_holders);
    let config = OwnerConfig { holders, degraded, silence, replace_after, ..config };
    Owner::attach(Time::ZERO, config, volume, host, domain, view.clone())
}

/// The parts of a volume that is attached.
pub(super) struct Parts {
    pub(super) log: Log<Writes>,
    pub(super) home: Home,
    pub(super) clean_files: CleanFiles,
    pub(super) clean: Clean,
    pub(super) recovered: Recovery,
    pub(super) epoch: Epoch,
    pub(super) lock: Lock,
}

/// The findings of a start in its log.
pub(super) struct Recovery {
    writes: DirtyWrites,
    /// The flush epochs, oldest first.
    flushes: Vec<Recovered>,
    /// They go home as one.
    is_joined: bool,
    /// Everything up to here was home once, as the log has nothing before it any more.
    floor: Option<Stamp>,
    /// The blocks of writes that the log has, and home too: clean ones may be of before.
    passed: ExtentMap<u64>,
    /// The position behind the last write.
    next: u64,
}

/// The cache of a home of this host, as it was found.
struct FoundCache {
    marker: Marker,
    scan: Scan<Writes>,
    recovered: Recovery,
    /// The mark that home has of it, if it has one.
    mark: Option<Stamp>,
}

impl FoundCache {
    fn read(files: &Arc<dyn Files>, marker: Marker, home: &FileHome) -> Result<Self, AttachError> {
        let mark = home.mark_of(marker.cache);
        let (scan, recovered) = scan_log(files, marker, mark.unwrap_or(Stamp::ZERO))?;
        Ok(Self { marker, scan, recovered, mark })
    }

    /// Returns the write before the log's first one: the log freed it because it was written back. `epoch` is the last
    /// attachment's.
    fn floor(&self, epoch: u64) -> Stamp {
        let emptied = Stamp { sequence: Sequence(self.recovered.next - 1), ..Stamp::begin(Epoch(epoch)) };
        self.recovered.floor.unwrap_or(emptied)
    }

    /// Whether home lacks what the log has freed (**HomeStays**).
    fn home_went_back(&self) -> Option<WentBack> {
        let (mark, floor) = self.mark.zip(self.recovered.floor)?;
        let state = |mark| HomeState { mark, ..HomeState::default() };
        let back = WentBack { known: state(floor), found: state(mark) };
        (floor.sequence > mark.sequence).then_some(back)
    }

    /// Returns why it is older than home, if it is.
    fn went_back(&self, files: &dyn Files, home: &FileHome) -> Result<Option<CacheWentBack>, FileError> {
        let attachment = HostId(home.ownership().attachment);
        if attachment == HostId(0) {
            // It was attached by an earlier version, which kept no number and no mark.
            return Ok(None);
        }
        let through = self.mark.map_or(0, |mark| mark.sequence.0);
        let known = KnownCache { attachment, through };
        let numbers = Attachments::read(files)?.numbers;
        Ok(known.expect(&numbers, self.recovered.next - 1, Broken::NONE).err())
    }
}

impl Recovery {
    pub(super) fn new(first: u64) -> Self {
        Self {
            next: first,
            writes: DirtyWrites::new(first),
            flushes: Vec::new(),
            is_joined: false,
            floor: None,
            passed: ExtentMap::default(),
        }
    }

    /// The position of the first dirty write.
    fn first(&self) -> u64 {
        self.next - self.writes.len() as u64
    }

    /// Whether a write of this block is in the log, home or not.
    fn has(&self, block: u32) -> bool {
        self.writes.newest(block).or(self.passed.get(block)).is_some()
    }

    /// One flush epoch of all: where it is unknown what of it is written back, it goes there as one.
    fn joined(self) -> Self {
        let bytes = self.flushes.iter().map(|flush| flush.bytes).sum();
        let flushes = self.flushes.last().map(|last| Recovered { bytes, ..*last }).into_iter().collect();
        Self { flushes, is_joined: true, ..self }
    }
}

/// The log of a cache, and its writes behind a mark. Nobody else has these.
fn scan_log(files: &Arc<dyn Files>, marker: Marker, mark: Stamp) -> Result<(Scan<Writes>, Recovery), AttachError> {
    let scan = Scan::begin(files.clone(), LogId(marker.cache), 0);
    let scanned = scan.and_then(|mut scan| recover(&mut scan, mark).map(|recovered| (scan, recovered)));
    scanned.map_err(|error| AttachError::of_log(error, 1))
}

/// The writes behind a mark.
fn recover(scan: &mut Scan<Writes>, mark: Stamp) -> Result<Recovery, FileError> {
    let (mut recovery, mut passed): (Option<Recovery>, _) = (None, ExtentMap::default());
    let mut floor = None;
    while let Some((position, Write { epoch, flush, blocks, content })) = scan.next_record()? {
        let last = Stamp { epoch, sequence: Sequence(position), flush };
        floor.get_or_insert(Stamp { sequence: Sequence(position).before(), ..Stamp::begin(epoch) });
        if last <= mark {
            passed.insert(blocks, position);
            continue;
        }
        let found = recovery.get_or_insert_with(|| Recovery::new(position));
        let bytes = content.len() + BLOCK as u64;
        match found.flushes.last_mut().filter(|it| (it.last.epoch, it.last.flush) == (epoch, flush)) {
            Some(it) => *it = Recovered { last, bytes: it.bytes + bytes },
            None => found.flushes.push(Recovered { last, bytes }),
        }
        found.writes.push(position, flush, blocks, content);
        // The log has it: it need not be in memory, too.
        found.writes.durable(position);
    }
    let next = scan.next_position();
    Ok(Recovery { floor, passed, next, ..recovery.unwrap_or_else(|| Recovery::new(next)) })
}

pub(super) fn limits(log_bytes: u64) -> Result<Limits, AttachError> {
    if !(LOG_BYTES_MIN..=LOG_BYTES_MAX).contains(&log_bytes) {
        return Err(AttachError::LogBytes(log_bytes));
    }
    let segment_bytes = (log_bytes / 16).clamp(1 << 20, 64 << 20).next_multiple_of(BLOCK as u64) as usize;
    // One more is being written while the others wait to be freed.
    let segments_max = (log_bytes as usize).div_ceil(segment_bytes) + 1;
    Ok(Limits { segment_bytes, segments_max, memory_bytes: 1 << 20 })
}

/// Makes all segments of the log: nobody who has room by the owner's count waits for room on the disk. If there is no
/// room for all of them none is left, as fewer should be made next.
pub(super) fn make_room(log: &Log<Writes>, files: &dyn Files, config: &AttachConfig) -> Result<(), AttachError> {
    let mut made: Vec<String> = Vec::new();
    while let Some(name) = log.plan_segment_for(u64::MAX) {
        if log.make_segment(&name)? != Made::Yes {
            for name in made {
                files.remove(&name).doing("remove", || files.path(&name))?;
            }
            return Err(AttachError::NoRoom(config.cache.clone(), config.log_bytes));
        }
        made.push(name);
        config.progress.tell(log.bytes().min(config.log_bytes), config.log_bytes);
    }
    Ok(())
}

pub(crate) fn lock_cache(files: &dyn Files) -> Result<Option<Lock>, FileError> {
    files.lock(LOCK_NAME, Locking::Signed).doing("lock", || files.path(LOCK_NAME))
}

/// Drops a cache whose volume was attached elsewhere since, or continued without it.
fn give_up(
    files: &Arc<dyn Files>,
    marker: Marker,
    config: &AttachConfig,
    refused: fn(usize) -> AttachError,
) -> Result<(), AttachError> {
    expect_unneeded(files, marker, config, refused)?;
    Ok(forget_marker(&**files)?)
}

/// Refuses to give up a cache that has writes, unless the operator accepts that they are lost.
fn expect_unneeded(
    files: &Arc<dyn Files>,
    marker: Marker,
    config: &AttachConfig,
    refused: fn(usize) -> AttachError,
) -> Result<(), AttachError> {
    let writes = scan_log(files, marker, Stamp::ZERO)?.1.writes.len();
    if writes > 0 && !config.is_forced { Err(refused(writes)) } else { Ok(()) }
}

/// Removes the marker of a cache. A new cache with another number takes its place, so its writes never come back.
fn forget_marker(files: &dyn Files) -> Result<(), FileError> {
    files.remove(MARKER_NAME).doing("remove", || files.path(MARKER_NAME))?;
    files.sync_dir().doing("sync", || files.path(""))
}

/// Draws the number of an attachment, which the cache remembers before home has it (**NumberAttachments**).
fn begin_attachment(files: &dyn Files, home: &FileHome, config: &AttachConfig) -> Result<u64, FileError> {
    let (before, next) = (HostId(home.ownership().attachment), HostId(random()?));
    let here = Place::of(&config.cache, LOCK_NAME);
    Attachments::read(files)?.begin_here(files, before, next, &here)?;
    Ok(next.0)
}

/// Makes a new cache. An earlier attempt that was interrupted left no marker; its segments are made again.
pub(super) fn create_cache(
    files: &dyn Files,
    volume: u64,
    limits: Limits,
    config: &AttachConfig,
) -> Result<Marker, AttachError> {
    for name in files.list().doing("read", || files.path(""))? {
        if is_segment(&name) || name.strip_suffix(".tmp").is_some() || name.starts_with("clean.") {
            files.remove(&name).doing("remove", || files.path(&name))?;
        } else if ![LOCK_NAME, MARKER_NAME, ATTACHMENT_NAME, KNOWN_NAME, CONTROL_NAME, SCRUB_NAME].contains(&&*name) {
            return Err(AttachError::NotEmpty(config.cache.clone()));
        }
    }
    let marker = Marker { volume, cache: random()?, incarnation: 0 };
    Log::<Writes>::create(files, LogId(marker.cache), limits, 2)?;
    files.sync_dir().doing("sync", || files.path(""))?;
    marker.write(files)?;
    Ok(marker)
}
