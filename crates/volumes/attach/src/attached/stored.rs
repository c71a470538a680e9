//! Attaching a volume of a store: the registry says whose it is, and a takeover brings home what is dirty, from holders
//! or from this host's own log.
//!
//! ```text
//!   lock the cache --> scan its log --> take over: registry, home, lists, home, registry
//!     --> the cache's attachment: its epoch, and the position before its first write --> open for requests
//! ```
//! 1. Each attachment has a number of its own, which the cache remembers: a host that lost its cache is another one,
//!    and waits for the end of its own lease. So does one whose earlier process is not known to be dead, and a copy of
//!    a cache.
//! 2. Sequences begin again with each epoch, positions in the log do not: an attachment's base is between them.
//! 3. A log of an earlier epoch than home's mark is dropped: those who took over have brought home what was promised of
//!    it. Clean blocks stay if the epoch is the one behind that of the cache's last attachment, as nobody has had it in
//!    between, or if others have only brought home what this host has written, and left the volume to nobody. The cache
//!    has to be where it was: a copy need not be of one moment.
//! 4. The files of clean blocks know which of them are no more before the attachment is written, and before the log
//!    frees anything: a start after the next crash goes by these two.
//! 5. A log that is damaged is left as it is, for whoever repairs its disk, and the volume is not attached with it:
//!    holders may have what it has, and another cache brings that home.

use super::attachment::{Attachment, Attachments, LOCK_NAME};
use super::copies::CopiesConfig;
use super::known_home::{self, Beside};
use super::open::{Marker, Parts, Recovery, create_cache, limits, lock_cache, make_room};
use super::read::read_record;
use super::{AttachConfig, AttachError, Attached, Core};
use crate::cache::{CleanFiles, DirtyWrites, Kept as KeptAt, SLOTS_MAX, Writes};
use crate::extents::BLOCK;
use crate::far::FarHome;
use crate::home::{Home, HomeError};
use crate::place::Place;
use crate::takeover::{OwnLog, TakeOverError, TakeOverSettings, TakeOverWord, Taken, take_over};
use bytes::Bytes;
use log::{Log, LogId, Scan};
use machines::{Content, Degraded, Entry, Epoch, Extent, HostId, Kept, Sequence, Stamp, VolumeId};
use net::Runtime;
use registry::Registry;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use vfs::random;
use vfs::{Directory, FileError, Files, make_directory};

/// A volume of a store, as a host is to attach it.
#[derive(Clone, Debug)]
pub struct StoredVolume {
    /// The registry. Its handle is this attachment's alone.
    pub registry: Arc<dyn Registry>,
    /// The threads of the sessions with holders and with home.
    pub runtime: Runtime,
    /// The volume.
    pub volume: VolumeId,
    /// The failure domain of this host.
    pub domain: u64,
    /// Holders beyond those that W takes.
    pub spare_holders: u8,
    /// A block that is written so often before it is written back has another copy; see [`CopiesConfig`].
    pub more_copies_after: u8,
    /// The way to continue with fewer copies than there should be.
    pub degraded: Degraded,
    /// A holder that counts nothing for longer is considered lost: sooner, if it has been faster by far.
    pub silence: Duration,
    /// A holder that is lost for longer is replaced.
    pub replace_after: Duration,
    /// So long a request waits while the store does not say that the volume is this host's.
    pub lease_patience: Duration,
}

/// The writes of the last attachment, in the log.
struct OwnWrites<'a> {
    attachment: Attachment,
    /// The place of each, by the position.
    stamps: Vec<(u64, Stamp)>,
    writes: &'a DirtyWrites,
    log: &'a Log<Writes>,
}

impl OwnWrites<'_> {
    fn content(&self, position: u64) -> Result<Option<(Extent, Content)>, FileError> {
        let Some(write) = self.writes.find(position) else { return Ok(None) };
        let blocks = &write.blocks;
        let extent = Extent { offset: u64::from(blocks.start) * BLOCK as u64, len: (blocks.len() * BLOCK) as u64 };
        let content = match &write.kept {
            KeptAt::Zeros { is_hole: true } => Content::Trim,
            KeptAt::Zeros { is_hole: false } => Content::Zero,
            KeptAt::Memory(bytes) => Content::Data(bytes.clone()),
            KeptAt::Log => {
                let mut bytes = vec![0; blocks.len() * BLOCK];
                if !read_record(self.log, position, blocks, blocks, &mut bytes)? {
                    return Ok(None);
                }
                Content::Data(Bytes::from(bytes))
            }
        };
        Ok(Some((extent, content)))
    }
}

impl OwnLog for OwnWrites<'_> {
    fn entries(&self) -> (Epoch, Vec<Entry>) {
        let entry = |&(position, stamp): &(u64, Stamp)| {
            let blocks = &self.writes.find(position)?.blocks;
            let extent = Extent { offset: u64::from(blocks.start) * BLOCK as u64, len: (blocks.len() * BLOCK) as u64 };
            Some(Entry { stamp, extent })
        };
        (self.attachment.epoch, self.stamps.iter().filter_map(entry).collect())
    }

    fn read(&self, stamp: Stamp) -> Result<Kept, FileError> {
        let record = self.content(self.attachment.base + stamp.sequence.0)?;
        Ok(Kept { stamp, record })
    }
}

/// The writes of an attachment that a log has, by their stamps.
fn scan_own(
    scan: &mut Scan<Writes>,
    attachment: Option<Attachment>,
) -> Result<(DirtyWrites, Vec<(u64, Stamp)>), FileError> {
    let (mut writes, mut stamps) = (None, Vec::new());
    while let Some((position, write)) = scan.next_record()? {
        let Some(Attachment { epoch, base }) = attachment else { continue };
        if write.epoch != epoch || position <= base {
            continue;
        }
        let found: &mut DirtyWrites = writes.get_or_insert_with(|| DirtyWrites::new(position));
        found.push(position, write.flush, write.blocks, write.content);
        // The log has it: it need not be in memory, too.
        found.durable(position);
        stamps.push((position, Stamp { epoch, sequence: Sequence(position - base), flush: write.flush }));
    }
    Ok((writes.unwrap_or_else(|| DirtyWrites::new(scan.next_position())), stamps))
}

/// Everything up to here was home once, as the log has nothing before its writes any more.
fn freed_through(attachment: Option<Attachment>, stamps: &[(u64, Stamp)]) -> Stamp {
    let first = attachment.zip(stamps.first());
    first.map_or(Stamp::ZERO, |(Attachment { epoch, .. }, (_, first))| Stamp {
        sequence: first.sequence.before(),
        ..Stamp::begin(epoch)
    })
}

/// The volume that a cache is of, and the epoch of its last attachment; nothing if there is no cache.
///
/// # Errors
/// Its files cannot be read.
pub(crate) fn cache_of(dir: &Path) -> Result<Option<(VolumeId, Epoch)>, FileError> {
    let files = Directory::new(dir);
    let Some(Marker { volume, .. }) = Marker::read(&files)? else { return Ok(None) };
    let epoch = Attachments::read(&files)?.last.map_or(Epoch(0), |it| it.epoch);
    Ok(Some((VolumeId(volume), epoch)))
}

impl Attached {
    /// Attaches a volume of a store at this host, which takes it over if another host has had it and is silent.
    /// `config.home` and `config.beside` are not looked at; `config.is_forced` continues without the copies of holders
    /// that do not answer, `config.accepts_own_log` with those of this cache instead. `say` hears how it goes; it is
    /// given up when `stop` says so.
    ///
    /// # Errors
    /// Why it cannot be. Nothing was lost or changed that a further attempt would miss.
    pub fn attach_stored(
        stored: &StoredVolume,
        config: &AttachConfig,
        stop: &AtomicBool,
        say: &mut dyn FnMut(TakeOverWord),
    ) -> Result<Self, AttachError> {
        make_directory(&config.cache)?;
        Self::run(Core::open_stored(stored, config, stop, say)?)
    }
}

impl Core {
    fn open_stored(
        stored: &StoredVolume,
        config: &AttachConfig,
        stop: &AtomicBool,
        say: &mut dyn FnMut(TakeOverWord),
    ) -> Result<Self, AttachError> {
        let StoredVolume { registry, runtime, volume, domain, spare_holders, more_copies_after, .. } = stored;
        let (limits, slots) = (limits(config.log_bytes)?, config.clean_bytes / BLOCK as u64);
        if slots > SLOTS_MAX {
            return Err(AttachError::CleanBytes(config.clean_bytes));
        }
        let files: Arc<dyn Files> = Arc::new(Directory::new(&config.cache));
        let lock = lock_cache(&*files)?.ok_or_else(|| AttachError::CacheInUse(config.cache.clone()))?;
        let found = Marker::read(&*files)?;
        if found.is_some_and(|marker| marker.volume != volume.0) {
            return Err(AttachError::OtherVolume(config.cache.clone()));
        }
        let home = registry.home_address(*volume).map_err(TakeOverError::from).map_err(AttachError::TakeOver)?;
        let home = FarHome::connect(&home, *volume, runtime).map_err(HomeError::from)?;
        let opened = home.opened().map_err(HomeError::from)?;
        let mark = opened.mark;
        let mut marker = match found {
            Some(marker) => marker,
            None => create_cache(&*files, volume.0, limits, config)?,
        };
        let (host, here) = (HostId(random()?), Place::of(&config.cache, LOCK_NAME));
        let mut attachments = Attachments::read(&*files)?;
        let (earlier, attachment) = (attachments.earlier(&here), attachments.last);
        let is_in_place = attachments.is_in_place(&here);
        let copies = registry.view(*volume).map_err(TakeOverError::from).map_err(AttachError::TakeOver)?.entry.copies;
        let scanned = Scan::<Writes>::begin(files.clone(), LogId(marker.cache), 0)
            .and_then(|mut scan| scan_own(&mut scan, attachment).map(|own| (scan, own)));
        let (scan, (writes, stamps)) = scanned.map_err(|error| AttachError::of_log(error, copies))?;
        let known = known_home::read(&*files, volume.0)?;
        let beside_home = Beside::look(known, freed_through(attachment, &stamps), known_home::of_far(&opened));
        beside_home.check(config.is_forced)?;
        let was_owner = earlier.hosts.contains(&HostId(opened.owner));
        marker.incarnation += 1;
        marker.write(&*files)?;
        let log = Log::resume(files.clone(), LogId(marker.cache), limits, marker.incarnation, &scan)?;

        // Before anything is anybody's: nothing has to wait for it then, and a disk that is full changes nothing.
        make_room(&log, &*files, config)?;
        attachments.begin(&*files, host, &here)?;
        let own = attachment.map(|attachment| OwnWrites { attachment, stamps, writes: &writes, log: &log });
        let settings = TakeOverSettings {
            registry: registry.clone(),
            runtime: runtime.clone(),
            home: Arc::new(FarHome::connect(home.address(), *volume, runtime).map_err(HomeError::from)?),
            volume: *volume,
            host,
            earlier,
            keeps: true,
            accepts_loss: config.is_forced,
            accepts_own_log: config.accepts_own_log,
            waits: true,
        };
        let own = own.as_ref().map(|own| own as &dyn OwnLog);
        let Taken { view, found, brought, before } =
            take_over(&settings, own, &|| stop.load(SeqCst), say).map_err(AttachError::TakeOver)?;
        // Others have had it since, and maybe while this one waited: home was not as this host's log is any more.
        if attachment.is_some_and(|it| it.epoch != found.epoch) && writes.len() > 0 {
            say(TakeOverWord::Dropped(writes.len()));
        }
        if view.entry.size > home.size() {
            return Err(AttachError::Size(view.entry.size, home.size()));
        }
        let epoch = view.entry.epoch;
        // Writes that went home without a lost cache are not in its log (**ForgetLostCache**), nor are those that it
        // has lost and that came from holders (**OwnLogIsAList**).
        let is_behind =
            |it: Attachment, mark: Stamp| mark.epoch == it.epoch && it.base + mark.sequence.0 > log.durable();
        let lacks_some = |it| is_behind(it, mark) || is_behind(it, brought);
        home.is_home(Stamp::begin(epoch));
        // Home's owner tells it from an epoch of this number that another host has had, as the registry was one of
        // before.
        let is_next = |it: Attachment| was_owner && it.epoch.next() == epoch;
        // Or it was left to nobody by who brought it home, and this log has, or had, everything that was written.
        let is_last = |it: Attachment| {
            let Stamp { epoch, sequence, .. } = before.written;
            !before.is_taking && epoch == it.epoch && it.base + sequence.0 <= log.durable()
        };
        let is_kept = |it: Attachment| (is_next(it) || is_last(it)) && !lacks_some(it);
        let is_home_same = beside_home == Beside::Same && is_in_place;
        let is_same = is_home_same && attachment.is_some_and(is_kept);
        // Its own writes are home now, and the clean blocks have older ones in their place.
        let keeps = |block| is_same && writes.newest(block).is_none();
        let (clean_files, clean) = CleanFiles::open(files.clone(), marker.cache, slots as usize, keeps)?;
        attachments.begun(&*files, host, Attachment { epoch, base: log.durable() })?;
        if let Some(known) = home.known() {
            known_home::write(&*files, volume.0, known)?;
        }
        let copies = CopiesConfig {
            registry: registry.clone(),
            runtime: runtime.clone(),
            volume: *volume,
            host,
            domain: *domain,
            view,
            spare_holders: *spare_holders,
            more_copies_after: *more_copies_after,
            degraded: stored.degraded,
            silence: stored.silence,
            replace_after: stored.replace_after,
            lease_patience: stored.lease_patience,
        };
        let config = AttachConfig { copies: Some(copies), ..config.clone() };
        let recovered = Recovery::new(log.durable() + 1);
        let home = Home::Far(home);
        Ok(Self::new(Parts { log, home, clean_files, clean, recovered, epoch, lock }, &config))
    }
}
