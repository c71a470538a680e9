//! The home of a volume in another process, as an owner has it: calls that wait.
//!
//! | file | what it is |
//! |---|---|
//! | `machine` | what was asked, and what has come of it, over sessions that come and go |
//! | `commands` | its commands, one after another, until their ends are known |
//! | `homes`, `survey` | all homes at an address, as an operator asks about them; what was asked |
//! | `line` | a machine that is waited for |
//! | `error` | why home did not do it |
//!
//! A home that is away is waited for, for as long as [`PATIENCE`]: one that is started again is found again, and reads
//! continue as if nothing had been. A write-back whose session is lost has failed, and its owner sends it again.

mod commands;
mod error;
mod homes;
mod line;
mod machine;
mod survey;

use self::machine::{Answer, COMMAND, Far, Question, Standing};
use crate::extents::BLOCK;
use crate::home::{Piece, Pieces, is_size};
use ::machine::{Machine, Waiter};
use commands::pause;
use line::Line;
use machines::messages::holder::{Content, Epoch, Extent, Stamp, VolumeId};
use machines::messages::home::{
    Begin, BlockSums, End, Fence, Keep, NotDone, Opened, Put, Remove, Resize, Run, Snapshot,
};
use machines::{HomeState, Registered, View, WentBack};
use net::{Handle, Runtime};
use registry::Volume;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, thread};
use types::limits::{VOLUME_COPY_BYTES, VOLUME_PART_BYTES_MAX, VOLUME_READS_PER_SESSION_MAX};
use vfs::FileError;

pub use error::FarError;
pub use homes::FarHomes;
pub use line::GivenUp;

/// A home that is away is waited for this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A home that was never learned of is waited for this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Parts of a write-back that were read, and wait for their way.
const AHEAD_MAX: usize = 64;

/// Parts that leave together at the most.
const TOGETHER_MAX: usize = 16;

/// The home of a volume in another process.
pub struct FarHome {
    volume: VolumeId,
    line: Line<Far>,
    size: AtomicU64,
    /// One command at a time.
    commanding: Mutex<()>,
}

/// A read that is under way at home, until it is dropped.
pub(crate) struct Asked {
    /// The numbers of its questions, and how many bytes each is for.
    parts: VecDeque<(u64, u64)>,
    machine: Handle<Far>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        for (id, _) in self.parts.drain(..) {
            self.machine.look(|machine| machine.forget(id));
            self.machine.driver().forget(Waiter(id));
        }
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl FarHome {
    /// Opens a volume at its home, which is reached at this address.
    ///
    /// # Errors
    /// Why it cannot be opened: home is not there, or has no such volume.
    pub fn connect(address: &str, volume: VolumeId, runtime: &Runtime) -> Result<Self, FarError> {
        Self::open(address, volume, None, runtime, None)
    }

    /// The same, for one who may give up waiting: for home to answer, and for anything that is asked of it later.
    ///
    /// # Errors
    /// As [`FarHome::connect`]; or [`FarError::GivenUp`].
    pub fn connect_until(
        address: &str,
        volume: VolumeId,
        runtime: &Runtime,
        given_up: GivenUp,
    ) -> Result<Self, FarError> {
        Self::open(address, volume, None, runtime, Some(given_up))
    }

    /// Makes a volume of zeros of this size, under a number that was drawn for it, and opens it.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn create(address: &str, volume: VolumeId, size: u64, runtime: &Runtime) -> Result<Self, FarError> {
        Self::open(address, volume, Some(size), runtime, None)
    }

    /// The same, for one who may give up waiting: for home to answer, and for anything that is asked of it later.
    ///
    /// # Errors
    /// As [`FarHome::create`]; or [`FarError::GivenUp`], and home may make it yet.
    pub fn create_until(
        address: &str,
        volume: VolumeId,
        size: u64,
        runtime: &Runtime,
        given_up: GivenUp,
    ) -> Result<Self, FarError> {
        Self::open(address, volume, Some(size), runtime, Some(given_up))
    }

    fn open(
        address: &str,
        volume: VolumeId,
        create: Option<u64>,
        runtime: &Runtime,
        given_up: Option<GivenUp>,
    ) -> Result<Self, FarError> {
        if let Some(size) = create.filter(|size| !is_size(*size)) {
            return Err(FarError::Size(size));
        }
        let line = Line::open(address, Far::new(volume, create), CONNECT_PATIENCE, runtime, given_up)?;
        let mut home = Self { volume, line, size: AtomicU64::new(0), commanding: Mutex::new(()) };
        let Opened { size, window, .. } = home.opened()?;
        if !is_size(size) || window < VOLUME_PART_BYTES_MAX as u64 + VOLUME_COPY_BYTES {
            return Err(FarError::NotHome(home.address().to_owned()));
        }
        home.size = AtomicU64::new(size);
        home.line.patience = PATIENCE;
        Ok(home)
    }

    /// Waits for a home that is away for this long; before it fails what was asked.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.line.patience = patience;
        self
    }

    /// The volume.
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Where its home is reached.
    pub fn address(&self) -> &str {
        self.line.address()
    }

    /// Its size in bytes, as home had it when it was opened or resized.
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Nobody wants anything of home any more: whoever waits for it is told so at once, and nothing is asked again.
    pub(crate) fn close(&self) {
        self.line.call(|machine| machine.stop("the volume is closed"));
    }

    /// The bytes of write-backs that were sent, and that home has not taken.
    pub(crate) fn under_way_bytes(&self) -> u64 {
        self.line.call(|machine| machine.under_way_bytes())
    }

    /// How home stands: its epoch and its mark, when the session was opened or it was last asked.
    ///
    /// # Errors
    /// It is away, or has no such volume.
    pub fn opened(&self) -> Result<Opened, FarError> {
        self.opened_unless(self.line.given_up())
    }

    fn opened_unless(&self, given_up: Option<&dyn Fn() -> bool>) -> Result<Opened, FarError> {
        self.line.wait_unless(given_up, COMMAND, |machine| match machine.standing() {
            Standing::Open(opened) => Some(Ok(*opened)),
            Standing::Refused(why) => Some(Err(self.refused(why.clone()))),
            Standing::WentBack(back) => Some(Err(self.went_back_by(*back))),
            Standing::Away => None,
        })?
    }

    /// A newer epoch of this owner begins: home refuses what older ones write from now on. Gives home's mark.
    ///
    /// # Errors
    /// A newer one has begun, or this one is another owner's.
    pub fn fence(&self, epoch: Epoch, owner: u64) -> Result<Stamp, FarError> {
        let _one = self.command();
        // Said again it is the same.
        Ok(self.until_done(self.line.given_up(), || Fence { epoch, owner })?.unwrap_or_default())
    }

    /// Returns the volume another size.
    ///
    /// # Errors
    /// Why it has the one of before.
    pub fn resize(&self, epoch: Epoch, size: u64) -> Result<(), FarError> {
        self.resize_to(epoch, size, self.line.given_up())
    }

    /// The same for as long as somebody wants it. Home may do it all the same, and [`FarHome::size`] is the one of
    /// before.
    pub(crate) fn resize_unless(
        &self,
        epoch: Epoch,
        size: u64,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<(), FarError> {
        self.resize_to(epoch, size, Some(is_given_up))
    }

    fn resize_to(&self, epoch: Epoch, size: u64, given_up: Option<&dyn Fn() -> bool>) -> Result<(), FarError> {
        if !is_size(size) {
            return Err(FarError::Size(size));
        }
        let _one = self.command();
        self.until_done(given_up, || Resize { epoch, size })?;
        self.size.store(size, Relaxed);
        Ok(())
    }

    /// Has home keep the registry's entry of the volume: if that is lost, it is made again of this.
    ///
    /// # Errors
    /// A newer epoch has begun, or home is unreachable or cannot write it.
    pub fn keep(&self, entry: &Volume) -> Result<(), FarError> {
        let _one = self.command();
        let (View { revision, entry: Registered { epoch, .. } }, text) = (&entry.view, entry.to_kept());
        let keep = || Keep { epoch: *epoch, revision: *revision, entry: text.clone() };
        self.until_done(self.line.given_up(), keep).map(drop)
    }

    /// The registry's entry of the volume, as home has kept it, if it has.
    ///
    /// # Errors
    /// Home is unreachable.
    pub fn kept(&self) -> Result<Option<Volume>, FarError> {
        let id = self.line.call(|machine| machine.ask(self.line.now(), Question::Entry));
        match self.wait_answer(id, self.line.given_up())? {
            Answer::Entry(text) => Ok(Volume::of_kept(self.volume, &text)),
            _ => Err(FarError::NotRead(self.address().to_owned())),
        }
    }

    /// Makes another volume at the same home, with what this one has there now. Blocks are shared until one of the two
    /// changes them, so it takes no room and no time.
    ///
    /// # Errors
    /// The file system there cannot do that, or the session was lost, and it is unknown whether it was made.
    pub fn snapshot(&self, to: VolumeId) -> Result<(), FarError> {
        let _one = self.command();
        self.once(|| Snapshot { to })
    }

    /// Removes the volume, if nobody else has it open.
    ///
    /// # Errors
    /// Why it is there still; or the session was lost, and nobody knows.
    pub fn remove(&self, epoch: Epoch) -> Result<(), FarError> {
        let _one = self.command();
        self.once(|| Remove { epoch })
    }

    /// Writes pieces home, under an epoch, up to a stamp; gives home's mark when all of it is durable there. Each block
    /// comes once; `is_joined` are installed whole or not at all. A home that is busy with something else is tried
    /// again, for as long as that takes, since it is there and says so: then the pieces are asked for from the first
    /// one on.
    pub(crate) fn write_back(&self, begin: Begin, pieces: Pieces<'_>) -> Result<Stamp, FarError> {
        loop {
            match self.write_back_once(begin, pieces) {
                Err(FarError::Busy(_)) => pause(self.line.given_up())?,
                written => return written,
            }
        }
    }

    /// The same with pieces that are there once.
    pub(crate) fn write_back_once(&self, begin: Begin, pieces: Pieces<'_>) -> Result<Stamp, FarError> {
        let _one = self.command();
        if !self.begin(self.line.given_up(), begin)? {
            return Err(self.line.away());
        }
        let (given, trouble) = self.send(pieces);
        let is_whole = given.is_ok() && trouble.is_none();
        self.line.call(|machine| machine.go_on(End { is_whole }));
        let outcome = self.outcome(self.line.given_up());
        given?;
        match trouble {
            Some(trouble) => Err(trouble),
            None => Ok(outcome?.unwrap_or(begin.through)),
        }
    }

    /// Sends pieces, as the window has room for them. The own log is read for the next ones in the meantime, so neither
    /// the line nor the log's disk waits for the other. Returns what came of the reading, and the trouble with home, if
    /// there was any.
    fn send(&self, pieces: Pieces<'_>) -> (Result<(), FileError>, Option<FarError>) {
        let (sender, parts) = sync_channel(AHEAD_MAX);
        thread::scope(|scope| {
            // The channel ends with the first trouble: what is read from then on goes nowhere.
            let sending = scope.spawn(move || self.put_parts(&parts).err());
            let mut is_over = false;
            let given = pieces(&mut |piece| {
                each_part(&piece, &mut |part| is_over = is_over || sender.send(part).is_err());
                Ok(())
            });
            drop(sender);
            let panicked = |_| Some(FarError::Host("a thread panicked: please report it".to_owned()));
            (given, sending.join().unwrap_or_else(panicked))
        })
    }

    /// Sends parts as they come: those that are there leave together.
    fn put_parts(&self, parts: &Receiver<Put>) -> Result<(), FarError> {
        let mut unsent = VecDeque::new();
        while let Ok(part) = parts.recv() {
            unsent.push_back(part);
            unsent.extend(parts.try_iter().take(TOGETHER_MAX - 1));
            while !unsent.is_empty() {
                self.line.wait(COMMAND, |machine| machine.put(&mut unsent).then_some(()))?;
                self.line.machine.driver().settle();
            }
        }
        Ok(())
    }

    /// Asks for the bytes of some blocks.
    pub(crate) fn ask(&self, first: u32, blocks: usize) -> Asked {
        let (offset, end) = (u64::from(first) * BLOCK as u64, (u64::from(first) + blocks as u64) * BLOCK as u64);
        let part = |at: u64| Extent { offset: at, len: (end - at).min(VOLUME_PART_BYTES_MAX as u64) };
        let parts = (offset..end).step_by(VOLUME_PART_BYTES_MAX).map(part);
        let parts = self.line.call(|machine| {
            let now = self.line.now();
            parts.map(|extent| (machine.ask(now, Question::Bytes(extent)), extent.len)).collect()
        });
        Asked { parts, machine: self.line.machine.clone() }
    }

    /// Waits for the bytes that were asked for, until nobody wants them.
    pub(crate) fn answer(
        &self,
        mut asked: Asked,
        mut into: &mut [u8],
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(), FarError> {
        let is_given_up = || is_unwanted() || self.line.given_up().is_some_and(|is_given_up| is_given_up());
        while let Some((id, len)) = asked.parts.pop_front() {
            let (part, rest) = into.split_at_mut(len as usize);
            into = rest;
            match self.wait_answer(id, Some(&is_given_up))? {
                Answer::Bytes(bytes) if bytes.len() == part.len() => part.copy_from_slice(&bytes),
                Answer::Unread(why) => return Err(FarError::Failed(self.address().to_owned(), why)),
                _ => return Err(FarError::NotRead(self.address().to_owned())),
            }
        }
        Ok(())
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// Home is unreachable, or cannot read them.
    pub fn read(&self, first: u32, into: &mut [u8]) -> Result<(), FarError> {
        self.read_unless(first, into, &|| false)
    }

    /// Like [`FarHome::read`], unless the blocks are unwanted.
    pub(crate) fn read_unless(
        &self,
        first: u32,
        into: &mut [u8],
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(), FarError> {
        // As many at a time as a session may have: more would wait in line here.
        for (at, chunk) in into.chunks_mut(VOLUME_READS_PER_SESSION_MAX / 4 * VOLUME_PART_BYTES_MAX).enumerate() {
            let first = first + (at * (VOLUME_READS_PER_SESSION_MAX / 4 * VOLUME_PART_BYTES_MAX / BLOCK)) as u32;
            self.answer(self.ask(first, chunk.len() / BLOCK), chunk, is_unwanted)?;
        }
        Ok(())
    }

    /// The checksums of whole blocks, as home keeps them and as it reads them now: no more than
    /// [`VOLUME_SUMS_PER_ANSWER_MAX`](types::limits::VOLUME_SUMS_PER_ANSWER_MAX) blocks.
    ///
    /// # Errors
    /// Home is unreachable, or cannot read them.
    pub fn scrub(&self, extent: Extent) -> Result<Vec<BlockSums>, FarError> {
        let id = self.line.call(|machine| machine.ask(self.line.now(), Question::Sums(extent)));
        match self.wait_answer(id, self.line.given_up())? {
            Answer::Sums(sums) if sums.len() as u64 * BLOCK as u64 == extent.len => Ok(sums),
            Answer::Unread(why) => Err(FarError::Failed(self.address().to_owned(), why)),
            _ => Err(FarError::NotRead(self.address().to_owned())),
        }
    }

    /// The runs of data and holes from a byte on, as many as home tells at a time.
    ///
    /// # Errors
    /// Home is unreachable, or cannot tell.
    pub fn runs(&self, extent: Extent) -> Result<Vec<Run>, FarError> {
        self.runs_unless(extent, &|| false)
    }

    /// Like [`FarHome::runs`], unless the runs are unwanted.
    pub(crate) fn runs_unless(&self, extent: Extent, is_unwanted: &dyn Fn() -> bool) -> Result<Vec<Run>, FarError> {
        let is_given_up = || is_unwanted() || self.line.given_up().is_some_and(|is_given_up| is_given_up());
        let id = self.line.call(|machine| machine.ask(self.line.now(), Question::Runs(extent)));
        let told = |runs: &[Run]| runs.iter().map(|run| run.len).fold(0, u64::saturating_add);
        let is_whole = |run: &Run| run.len > 0 && run.len.is_multiple_of(BLOCK as u64);
        match self.wait_answer(id, Some(&is_given_up))? {
            Answer::Runs(runs) if !runs.is_empty() && told(&runs) <= extent.len && runs.iter().all(is_whole) => {
                Ok(runs)
            }
            _ => Err(FarError::NotRead(self.address().to_owned())),
        }
    }

    fn wait_answer(&self, id: u64, given_up: Option<&dyn Fn() -> bool>) -> Result<Answer, FarError> {
        let look = |machine: &mut Far| match (machine.take(id), machine.standing()) {
            (Some(answer), _) => Some(Ok(answer)),
            (None, Standing::Refused(why)) => Some(Err(self.refused(why.clone()))),
            (None, Standing::WentBack(back)) => Some(Err(self.went_back_by(*back))),
            (None, Standing::Away | Standing::Open(_)) => None,
        };
        let answer = self.line.wait_unless(given_up, Waiter(id), look);
        self.forget(id);
        answer?
    }

    fn forget(&self, id: u64) {
        self.line.call(|machine| machine.forget(id));
        self.line.machine.driver().forget(Waiter(id));
    }

    /// Why nothing can be done with home any more, if it is not as it was left.
    pub(crate) fn went_back(&self) -> Option<FarError> {
        self.line.call(|machine| match machine.standing() {
            Standing::WentBack(back) => Some(self.went_back_by(*back)),
            _ => None,
        })
    }

    /// Home as it was learned of last.
    pub(crate) fn known(&self) -> Option<HomeState> {
        self.line.call(|machine| machine.known())
    }

    /// Home has everything up to here, as this host knows by another session.
    pub(crate) fn is_home(&self, mark: Stamp) {
        self.line.call(|machine| machine.is_home(mark));
    }

    fn went_back_by(&self, back: WentBack) -> FarError {
        FarError::WentBack(self.address().to_owned(), back)
    }

    fn refused(&self, why: NotDone) -> FarError {
        FarError::refused(why, self.address().to_owned(), self.volume)
    }

    fn command(&self) -> MutexGuard<'_, ()> {
        self.commanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a piece in parts.
fn each_part(piece: &Piece, give: &mut dyn FnMut(Put)) {
    let at = |block: u32| u64::from(block) * BLOCK as u64;
    match piece {
        Piece::Bytes(first, bytes) => {
            for from in (0..bytes.len()).step_by(VOLUME_PART_BYTES_MAX) {
                let part = bytes.slice(from..bytes.len().min(from + VOLUME_PART_BYTES_MAX));
                let extent = Extent { offset: at(*first) + from as u64, len: part.len() as u64 };
                give(Put { extent, content: Content::Data(part) });
            }
        }
        Piece::Zeros { blocks, is_hole } => {
            let extent = Extent { offset: at(blocks.start), len: at(blocks.end) - at(blocks.start) };
            give(Put { extent, content: if *is_hole { Content::Trim } else { Content::Zero } });
        }
    }
}

impl fmt::Debug for FarHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarHome")
            .field("volume", &self.volume)
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
