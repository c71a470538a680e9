//! Taking a volume over: a host makes it its own, and brings home what the owner before it has left at its holders.
//!
//! ```text
//!   registry --view, members--> takeover-watch --+
//!   registry <--change--------- takeover-change -+--> events --> TakeOver    (the thread of the caller)
//!   home <-----fence, writes--- takeover-home ---+                  |
//!   holders ---news--------------------------------+                v
//!   holders <--lists, copies-- Line --settle---------------------- effects
//! ```
//! | to change | see |
//! |---|---|
//! | what is asked of whom, and in which order | `machines::TakeOver`, the machine |
//! | sessions with holders | `holders.rs` |
//! | what goes home | `homeward.rs` |
//!
//! A volume whose owner lives is let alone: a heartbeat of its owner, or of another host that takes it over, ends this.

mod error;
mod holders;
mod homeward;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::far::FarHome;
use holders::Holders;
use homeward::{Call, Part, Told, go_home};
use machines::{
    Change, Earlier, Entry, Epoch, HostId, Kept, PartitionId, Registered, Source, Stamp, TakeOver, TakeOverConfig,
    TakeOverEffect, View, VolumeId, WentBack,
};
use net::Runtime;
use registry::{HolderName, Registrant, Registry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use types::Time;
use vfs::FileError;
use vfs::random;

pub use error::TakeOverError;

/// How often the registry is looked at, unless it says that something has changed.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// A change of the registry is known everywhere within this time.
const NEWS_WITHIN: Duration = Duration::from_secs(3);

/// How often it is said how far it has come.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// How often it is looked whether this is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a volume is taken over.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Debug)]
pub(crate) struct TakeOverSettings {
    /// The registry. Its handle is this host's alone.
    pub(crate) registry: Arc<dyn Registry>,
    /// The threads of the sessions with holders.
    pub(crate) runtime: Runtime,
    /// The volume's home.
    pub(crate) home: Arc<FarHome>,
    /// The volume.
    pub(crate) volume: VolumeId,
    /// This host, by a number of this attachment alone.
    pub(crate) host: HostId,
    /// The attachments that its cache remembers.
    pub(crate) earlier: Earlier,
    /// Whether it keeps the volume, or only brings it home.
    pub(crate) keeps: bool,
    /// Whether it continues without the copies of holders that cannot be had.
    pub(crate) accepts_loss: bool,
    /// The same, if its own log has what was not written back: that may have lost something, too.
    pub(crate) accepts_own_log: bool,
    /// Whether another host that brings the volume home is waited for: it may leave it to nobody. Else that one is let
    /// alone.
    pub(crate) waits: bool,
}

/// A volume that was taken over.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The registry's word on it.
    pub(crate) view: View,
    /// Home's mark when the epoch began there.
    pub(crate) found: Stamp,
    /// The last write that was brought home, or that mark.
    pub(crate) brought: Stamp,
    /// The registry's entry before.
    pub(crate) before: Registered,
}

/// The log of this host, if the volume was its own before.
pub(crate) trait OwnLog {
    /// The epoch that it is of, and its writes, as far as they are not known to be home.
    fn entries(&self) -> (Epoch, Vec<Entry>);

    /// One of them.
    fn read(&self, stamp: Stamp) -> Result<Kept, FileError>;
}

/// A word for people on how it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverWord {
    /// The volume has an owner: whether that lives is told by its silence.
    Watches {
        /// It takes this long.
        lease: Duration,
        /// That is an attachment with this cache, whose process is not known to be dead: the machine was started again
        /// since, or the cache is a copy.
        is_own: bool,
        /// The cache remembers attachments of its own.
        is_used: bool,
    },
    /// Another host brings it home, or takes it over: that is waited for.
    WatchesRescue,
    /// Everything that was missing or in trouble is there again.
    GoesOn,
    /// The volume is this host's, under this epoch, and is brought home.
    Claimed(Epoch),
    /// Lists are missing, lack acknowledged writes, or have the only copy of a write damaged. The takeover waits for
    /// them until their loss is accepted.
    Missing {
        /// Which ones. If none is named, the only copy that counts is in the cache of another host, or is damaged.
        lists: Vec<String>,
        /// The holders among them that lack writes which they had acknowledged: their directories were restored from
        /// copies.
        older: Vec<String>,
        /// The log of this host has what was not written back, too: they are missed by what that may have lost.
        has_own_log: bool,
    },
    /// Home went back, and lacks what holders have freed. It is waited for an operator.
    HomeWentBack(WentBack),
    /// It is on its way home. Said every few seconds.
    Progress {
        /// The writes that were sent,
        sent: usize,
        /// of this many,
        of: usize,
        /// and the bytes of them that have not arrived.
        under_way_bytes: u64,
    },
    /// Home has not done what it was to do, and is asked again.
    Home(String),
    /// Other hosts have had the volume since this one: so many writes that its log has, and that it did not know to be
    /// home, are dropped. The promised ones among them were brought home from copies, or were given up.
    Dropped(usize),
}

/// Something has happened.
#[derive(Debug)]
enum Event {
    Registered(View),
    Members(Vec<Registrant>),
    Names(Vec<HolderName>),
    Changed(Result<View, Option<View>>),
    Home(u64, Told),
    News(PartitionId),
}

/// Takes a volume over. `say` hears how it goes; it is given up when `is_given_up`
/// says so, which is asked all the time.
///
/// # Errors
/// Why the volume is not this host's.
pub(crate) fn take_over(
    settings: &TakeOverSettings,
    own: Option<&dyn OwnLog>,
    is_given_up: &dyn Fn() -> bool,
    say: &mut dyn FnMut(TakeOverWord),
) -> Result<Taken, TakeOverError> {
    let TakeOverSettings { registry, volume, .. } = settings;
    let view = registry.view(*volume)?;
    let (tell, events) = channel();
    let (changes, to_change) = channel::<Change>();
    let (calls, to_home) = channel::<(u64, Call)>();
    // It may wait for home for longer than anybody waits here.
    let (home, told) = (settings.home.clone(), tell.clone());
    let going_home = move || go_home(&home, &to_home, &|number, what| drop(told.send(Event::Home(number, what))));
    thread::Builder::new().name("takeover-home".into()).spawn(going_home).map_err(TakeOverError::Thread)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if this panics: the scope waits for the watch.
        let _over = Over(&is_over);
        let (told, over) = (tell.clone(), &is_over);
        scope.spawn(move || watch(&**registry, *volume, &told, over));
        let told = tell.clone();
        scope.spawn(move || {
            for change in to_change {
                let _ = told.send(Event::Changed(registry.change(*volume, change)));
            }
        });
        let mut driver = Driver::new(settings, own, view, tell, changes, calls);
        driver.speak_of_owner(say);
        loop {
            driver.speak_of_rescue(say);
            driver.speak_of_progress(say);
            if let Some(view) = driver.carry_out(say)? {
                return Ok(Taken {
                    view,
                    found: driver.found,
                    brought: driver.brought,
                    before: driver.takeover.before().clone(),
                });
            }
            if is_given_up() {
                return Err(TakeOverError::Stopped);
            }
            match events.recv_timeout(driver.due_within()) {
                Ok(event) => driver.handle(event, say)?,
                Err(RecvTimeoutError::Timeout) => driver.handle_timeout(),
                Err(RecvTimeoutError::Disconnected) => unreachable!("the driver can tell itself"),
            }
        }
    })
}

/// Says that it is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Brings home what a host that is gone has left of a volume, and leaves the volume to nobody. See [`take_over`] for
/// the rest.
///
/// # Errors
/// Why it is not written back; a volume whose owner lives is let alone.
pub fn bring_home(
    registry: Arc<dyn Registry>,
    runtime: Runtime,
    home: FarHome,
    accepts_loss: bool,
    is_given_up: &dyn Fn() -> bool,
    say: &mut dyn FnMut(TakeOverWord),
) -> Result<View, TakeOverError> {
    let settings =
        TakeOverSettings { accepts_loss, waits: true, ..TakeOverSettings::homeward(registry, runtime, home)? };
    Ok(take_over(&settings, None, is_given_up, say)?.view)
}

impl TakeOverSettings {
    /// Those of a party that only brings a volume home.
    pub(crate) fn homeward(
        registry: Arc<dyn Registry>,
        runtime: Runtime,
        home: FarHome,
    ) -> Result<Self, TakeOverError> {
        let (volume, host, home) = (home.volume(), HostId(random()?), Arc::new(home));
        Ok(Self {
            registry,
            runtime,
            home,
            volume,
            host,
            earlier: Earlier::default(),
            keeps: false,
            accepts_loss: false,
            accepts_own_log: false,
            waits: false,
        })
    }
}

/// The thread that watches the registry.
fn watch(registry: &dyn Registry, volume: VolumeId, told: &Sender<Event>, is_over: &AtomicBool) {
    while !is_over.load(SeqCst) {
        if let Ok(members) = registry.members() {
            let _ = told.send(Event::Members(members));
        }
        if let Ok(names) = registry.holders(volume) {
            let _ = told.send(Event::Names(names));
        }
        if let Ok(view) = registry.view(volume) {
            let _ = told.send(Event::Registered(view));
        }
        registry.wait(WATCH_EVERY);
    }
}

/// The machine, and those who do what it wants.
struct Driver<'a> {
    settings: &'a TakeOverSettings,
    own: Option<&'a dyn OwnLog>,
    takeover: TakeOver,
    clock: Clock,
    /// The registry's word, as it was heard last.
    view: View,
    holders: Holders,
    changes: Sender<Change>,
    calls: Sender<(u64, Call)>,
    /// The last call of home, and the writes of it that follow.
    call: u64,
    parts: Option<Sender<Part>>,
    home_trouble: Option<String>,
    /// Something is missing or in trouble, and was spoken of.
    is_lacking: bool,
    /// It was said that another host brings it home.
    has_said_rescue: bool,
    /// When it was said how far it has come, or that was worth a word.
    spoken_at: Option<Instant>,
    /// The newest epoch that home had learned of before.
    home_epoch: Epoch,
    /// Home's mark when it was fenced.
    found: Stamp,
    /// The last write of an earlier epoch that home has.
    brought: Stamp,
}

impl<'a> Driver<'a> {
    fn new(
        settings: &'a TakeOverSettings,
        own: Option<&'a dyn OwnLog>,
        view: View,
        tell: Sender<Event>,
        changes: Sender<Change>,
        calls: Sender<(u64, Call)>,
    ) -> Self {
        let TakeOverSettings { volume, host, keeps, .. } = *settings;
        let config = TakeOverConfig { keeps, ..TakeOverConfig::new(volume, host) };
        let mut takeover = TakeOver::new(Time::ZERO, config, view.clone());
        takeover = takeover.with_earlier(Time::ZERO, settings.earlier.clone());
        if let Some((epoch, entries)) = own.map(OwnLog::entries) {
            takeover = takeover.with_own_log(epoch, entries);
        }
        let holders = Holders::new(settings.runtime.clone(), move |partition| {
            // Nobody hears it: it is over.
            let _ = tell.send(Event::News(partition));
        });
        Self {
            settings,
            own,
            takeover,
            clock: Clock::start(),
            view,
            holders,
            changes,
            calls,
            call: 0,
            parts: None,
            home_trouble: None,
            is_lacking: false,
            has_said_rescue: false,
            spoken_at: None,
            home_epoch: Epoch(0),
            found: Stamp::ZERO,
            brought: Stamp::ZERO,
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long to wait for an event.
    fn due_within(&self) -> Duration {
        self.takeover.poll_timeout().map_or(LOOK_EVERY, |at| self.clock.until(at).min(LOOK_EVERY))
    }

    fn handle_timeout(&mut self) {
        let now = self.now();
        if self.takeover.poll_timeout().is_some_and(|at| at <= now) {
            self.takeover.handle_timeout(now);
        }
    }

    fn handle(&mut self, event: Event, say: &mut dyn FnMut(TakeOverWord)) -> Result<(), TakeOverError> {
        let now = self.now();
        match event {
            Event::Registered(view) => {
                self.takeover.hear_registry(now, view.clone());
                self.hear(view)?;
            }
            Event::Members(members) => self.holders.has_members(members),
            Event::Names(names) => self.holders.has_names(names),
            Event::Changed(outcome) => {
                let heard = match &outcome {
                    Ok(view) | Err(Some(view)) => Some(view.clone()),
                    Err(None) => None,
                };
                let was_watching = self.takeover.epoch();
                self.takeover.changed(now, outcome);
                if self.takeover.epoch() > was_watching {
                    say(TakeOverWord::Claimed(self.takeover.epoch()));
                }
                heard.map_or(Ok(()), |view| self.hear(view))?;
            }
            Event::Home(_, Told::WentBack(why)) => return Err(TakeOverError::HomeWentBack(why)),
            Event::Home(number, told) if number == self.call => self.home(now, told, say),
            Event::Home(..) => {}
            Event::News(partition) => self.holders.take_news(partition, |news| match news {
                crate::links::News::Up => self.takeover.connected(now, partition),
                crate::links::News::Down => self.takeover.disconnected(now, partition),
                crate::links::News::Heard(message) => self.takeover.heard(now, partition, message),
            }),
        }
        self.handle_timeout();
        Ok(())
    }

    /// A change by another host, while it is waited whether there is one, is a heartbeat. One that is bringing the
    /// volume home is waited for: it may leave it to nobody.
    fn hear(&mut self, view: View) -> Result<(), TakeOverError> {
        let is_new = view.revision > self.view.revision;
        let is_other = view.entry.owner.is_some_and(|owner| !self.takeover.succeeds(owner));
        let is_waited_for = view.entry.is_taking && self.settings.waits;
        if is_new {
            self.view = view;
        }
        if is_new && is_other && !is_waited_for && self.takeover.is_watching() {
            Err(TakeOverError::Lives)
        } else {
            Ok(())
        }
    }

    /// Says that the silence of the owner is waited for.
    fn speak_of_owner(&self, say: &mut dyn FnMut(TakeOverWord)) {
        let (entry, earlier) = (&self.view.entry, &self.settings.earlier.hosts);
        if let Some(owner) = entry.owner.filter(|&owner| !self.takeover.succeeds(owner) && !entry.is_taking) {
            let (is_own, is_used) = (earlier.contains(&owner), !earlier.is_empty());
            say(TakeOverWord::Watches { lease: entry.lease, is_own, is_used });
        }
    }

    /// Says once that another host is waited for, as it brings the volume home.
    fn speak_of_rescue(&mut self, say: &mut dyn FnMut(TakeOverWord)) {
        let entry = &self.view.entry;
        let is_other = entry.owner.is_some_and(|owner| !self.takeover.succeeds(owner));
        if self.takeover.is_watching() && is_other && entry.is_taking && !self.has_said_rescue {
            self.has_said_rescue = true;
            say(TakeOverWord::WatchesRescue);
        }
    }

    /// Says now and then how far it has come.
    fn speak_of_progress(&mut self, say: &mut dyn FnMut(TakeOverWord)) {
        let Some((sent, of)) = self.takeover.progress() else { return };
        if self.spoken_at.get_or_insert_with(Instant::now).elapsed() >= SAY_EVERY {
            self.spoken_at = None;
            say(TakeOverWord::Progress { sent, of, under_way_bytes: self.settings.home.under_way_bytes() });
        }
    }

    /// Nothing is missing any more.
    fn goes_on(&mut self, say: &mut dyn FnMut(TakeOverWord)) {
        if std::mem::take(&mut self.is_lacking) {
            say(TakeOverWord::GoesOn);
        }
    }

    fn home(&mut self, now: Time, told: Told, say: &mut dyn FnMut(TakeOverWord)) {
        match told {
            Told::Keeps(epoch, revision) => {
                self.home_epoch = epoch;
                self.takeover.home_keeps(now, revision);
            }
            Told::Fenced(mark, kept) => {
                (self.found, self.brought) = (mark, mark);
                self.takeover.home_keeps(now, kept);
                self.takeover.home_fenced(now, mark);
            }
            Told::Took => return self.takeover.home_took(now, 1),
            Told::Durable(through) => {
                if through.epoch < self.takeover.epoch() {
                    self.brought = through;
                }
                self.takeover.home_durable(now, through);
            }
            Told::Ended(epoch) => self.takeover.home_ended(epoch),
            // That ends all.
            Told::WentBack(_) => {}
            Told::Failed(why) => {
                if self.home_trouble.as_ref() != Some(&why) {
                    say(TakeOverWord::Home(why.clone()));
                }
                (self.home_trouble, self.is_lacking) = (Some(why), true);
                return self.takeover.home_failed(now);
            }
        }
        self.home_trouble = None;
        self.goes_on(say);
    }

    /// Does what the machine wants done; gives the registry's word when all is.
    fn carry_out(&mut self, say: &mut dyn FnMut(TakeOverWord)) -> Result<Option<View>, TakeOverError> {
        while let Some(effect) = self.takeover.poll_effect() {
            match effect {
                TakeOverEffect::Change(change) => drop(self.changes.send(change)),
                TakeOverEffect::AskHome => self.call_home(Call::Ask),
                TakeOverEffect::FenceHome(epoch) => self.call_home(Call::Fence(epoch, self.settings.host)),
                TakeOverEffect::Connect(partition) => self.holders.connect(partition),
                TakeOverEffect::Reconnect(partition, reason) => self.holders.reconnect(partition, reason),
                TakeOverEffect::Disconnect(partition) => self.holders.disconnect(partition),
                TakeOverEffect::Send(partition, message) => self.holders.send(partition, message),
                TakeOverEffect::ReadOwn(stamp) => {
                    let nothing = || Ok(Kept { stamp, record: None });
                    let kept = self.own.map_or_else(nothing, |own| own.read(stamp))?;
                    self.takeover.kept(self.now(), Source::Own, kept);
                }
                TakeOverEffect::Begin(through, is_joined) => {
                    self.goes_on(say);
                    let (parts, to_write) = channel();
                    self.parts = Some(parts);
                    let epoch = self.takeover.epoch();
                    self.call_home(Call::Write { epoch, through, is_joined, parts: to_write });
                }
                TakeOverEffect::Write(record) => self.give(Part::Write(record)),
                TakeOverEffect::End(_) => {
                    self.give(Part::End);
                    self.parts = None;
                }
                TakeOverEffect::Abort => self.parts = None,
                TakeOverEffect::Missing(partitions) => {
                    self.is_lacking = true;
                    let older = partitions.iter().filter(|it| self.takeover.lacks_acknowledged(**it));
                    let older = older.map(|it| self.holders.name(*it)).collect();
                    let lists = partitions.iter().map(|it| self.holders.name(*it)).collect();
                    let has_own_log = self.takeover.has_own_log();
                    say(TakeOverWord::Missing { lists, older, has_own_log });
                    if self.settings.accepts_loss || self.settings.accepts_own_log && has_own_log {
                        self.takeover.accept_loss(self.now());
                    }
                }
                TakeOverEffect::HomeWentBack(back) => {
                    self.is_lacking = true;
                    say(TakeOverWord::HomeWentBack(back));
                    if self.settings.accepts_loss {
                        self.takeover.accept_loss(self.now());
                    }
                }
                TakeOverEffect::Done(view) => return Ok(Some(view)),
                TakeOverEffect::Lost(epoch) => return Err(self.lost(epoch)),
                TakeOverEffect::RegistryBack => {
                    let found = self.settings.registry.view(self.settings.volume)?.entry.epoch;
                    let known = self.takeover.epoch().max(self.home_epoch);
                    return Err(TakeOverError::RegistryBack(known, found));
                }
            }
        }
        self.holders.settle();
        Ok(None)
    }

    /// Another host was first, under this epoch, as the registry says soon; or the registry was restored from an older
    /// copy.
    fn lost(&self, epoch: Epoch) -> TakeOverError {
        let TakeOverSettings { registry, volume, host, .. } = self.settings;
        let until = Instant::now() + NEWS_WITHIN;
        loop {
            let Ok(View { entry, .. }) = registry.view(*volume) else { return TakeOverError::Lost(epoch) };
            if entry.epoch > epoch || entry.epoch == epoch && entry.owner != Some(*host) {
                return TakeOverError::Lost(epoch);
            }
            if Instant::now() >= until {
                return TakeOverError::RegistryBack(epoch, entry.epoch);
            }
            registry.wait(WATCH_EVERY);
        }
    }

    fn call_home(&mut self, call: Call) {
        self.call += 1;
        let _ = self.calls.send((self.call, call));
    }

    fn give(&mut self, part: Part) {
        if let Some(parts) = &self.parts {
            let _ = parts.send(part);
        }
    }
}
