//! A session that this end has opened: how far it is, what it is allowed, and what is due on it.
//!
//! ```text
//!   Down --connected/Hello, Resume--> Greeting --Welcome--> Resuming --Resumed--> Live
//!    ^                            |                            |                    |
//!    +-------- the link is gone --+----------------------------+--------------------+
//!                                 +---- nothing more is available of the store ----> Over
//! ```
//! 1. The horizon has the counts through which every change has been learned of that concerns what this end holds. It
//!    is kept over sessions; what moves it is the role's to say.
//! 2. The knowledge of the store (its cluster, its lives, the highest counts that it has named) is kept over sessions,
//!    and decides whether the next one continues from there.
//! 3. A message that need not go out at once waits for the next one: a release for [`PIGGYBACK`] at most, and an
//!    acknowledgement for [`ACKNOWLEDGE`].

use crate::heartbeat::Heartbeat;
use crate::{Hello, Lineage, SessionLimits, Welcome};
use alloc::format;
use core::time::Duration;
use machine::Goodbye;
use types::{ClientId, ClusterId, GoodbyeReason, Horizon, Life, Sharding, Time, Vector};

/// How long releases wait for a message to go with.
pub const PIGGYBACK: Duration = Duration::from_millis(2);

/// How long acknowledgements wait for a message to go with. A master uses them only to forget, and most of its clients
/// have nothing else to say to it. At the pace of invalidations, acknowledgements would be a third of the messages
/// between many nodes (`docs/decisions/0063-acknowledgements-wait.md`).
pub const ACKNOWLEDGE: Duration = Duration::from_millis(50);

/// How far a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase<E> {
    /// There is no link.
    Down,
    /// This end has said who it is.
    Greeting,
    /// The other end has welcomed it, and compares what it holds.
    Resuming,
    /// It has learned of everything that it has missed.
    Live,
    /// There will be no session any more, and why.
    Over(E),
}

/// An action that is due on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// The other end has been silent for too long: what it is told when this end hangs up.
    Silence(Goodbye),
    /// A ping.
    Ping,
}

/// A session that this end has opened, and opens again. `E` is why there is none any more.
#[derive(Debug)]
pub struct Upstream<E> {
    phase: Phase<E>,
    limits: SessionLimits,
    epoch: u64,
    cluster: Option<ClusterId>,
    lineage: Lineage,
    sharding: Sharding,
    horizon: Vector,
    named: Vector,
    missed: u64,
    heartbeat: Heartbeat,
    piggyback_at: Option<Time>,
}

impl<E> Default for Upstream<E> {
    fn default() -> Self {
        Self {
            phase: Phase::Down,
            limits: SessionLimits::UNTOLD,
            epoch: 0,
            cluster: None,
            lineage: Lineage::default(),
            sharding: Sharding::ONE,
            horizon: Vector::new(),
            named: Vector::new(),
            missed: 0,
            heartbeat: Heartbeat::default(),
            piggyback_at: None,
        }
    }
}

impl<E> Upstream<E> {
    /// A session with another node of the same store. It knows the store, and no lives of the node.
    pub fn beside(&self) -> Self {
        Self { cluster: self.cluster, sharding: self.sharding, epoch: self.epoch, ..Self::default() }
    }

    /// Later sessions have higher epochs than those of `other`, which is forgotten.
    pub fn comes_after(&mut self, other: &Self) {
        self.epoch = self.epoch.max(other.epoch);
    }

    /// The other end says the counts of these shards alone.
    pub fn keep_counts(&mut self, own: impl Fn(&Vector) -> Vector) {
        (self.horizon, self.named) = (own(&self.horizon), own(&self.named));
    }

    /// The other end says the counts of another session's as well. They were learned in another node's lives, so no
    /// node's lineage can be compared with all of them.
    pub fn add_counts(&mut self, other: &Self) {
        self.horizon.join(&other.horizon);
        self.named.join(&other.named);
        self.lineage = Lineage::default();
    }

    /// Takes over the counts of these shards from another session.
    pub fn take_counts(&mut self, other: &Self, own: impl Fn(&Vector) -> Vector) {
        (self.horizon, self.named) = (own(&other.horizon), own(&other.named));
    }

    /// How far it is.
    #[inline]
    pub fn phase(&self) -> &Phase<E> {
        &self.phase
    }

    /// Whether anything may be asked for.
    #[inline]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    /// Whether it has begun and not ended.
    #[inline]
    pub fn is_up(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Over(_))
    }

    /// Whether there will be none any more.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// The limits on its requests.
    pub fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Every change through here has been learned of that concerns what this end holds.
    pub fn horizon(&self) -> Horizon<'_> {
        Horizon { counts: &self.horizon, sharding: self.sharding }
    }

    /// The highest counts that the store has named, the horizon's or later ones.
    pub fn named(&self) -> Vector {
        self.named.clone().joined(&self.horizon)
    }

    /// Which of the store's pages have counts in common, as it has said when it was reached first.
    pub fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// The lives of the store that are known.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The latest life of the store that is known.
    pub fn life(&self) -> Option<Life> {
        self.lineage.current()
    }

    /// There is a link: gives what is said first.
    pub fn open(&mut self, now: Time, client: ClientId, features: u64) -> Hello {
        self.epoch += 1;
        self.phase = Phase::Greeting;
        self.limits = SessionLimits::UNTOLD;
        self.heartbeat.heard(now);
        let (cluster, epoch) = (self.cluster, self.epoch);
        Hello { features, cluster, client, epoch }
    }

    /// The link is gone, and with it every answer that was on its way.
    pub fn close(&mut self) {
        if !self.is_over() {
            self.phase = Phase::Down;
        }
        self.piggyback_at = None;
    }

    /// There will be no session any more.
    pub fn end(&mut self, why: E) {
        self.phase = Phase::Over(why);
    }

    /// The store that has answered was restored to an older state. Keeps the number of its missing commits for the
    /// resume.
    pub fn has_parted(&mut self, welcome: &Welcome) {
        let Some(parted) = welcome.lineage.parted_from(&self.lineage) else { return };
        let named = self.named();
        let missed = named.counts().iter().map(|&(shard, count)| count.0.saturating_sub(parted.of(shard).0));
        self.missed = self.missed.max(missed.sum());
    }

    /// Returns the number of commits that this end has seen and the store has not; zero once the store knows it.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The knowledge is of another store: the next session begins with nothing.
    pub fn forget_store(&mut self) {
        (self.cluster, self.lineage) = (None, Lineage::default());
        (self.horizon, self.named) = (Vector::new(), Vector::new());
    }

    /// Whether the session can continue with the store that has answered.
    ///
    /// # Errors
    /// `WrongCluster` if it is another store, or says that its pages have other shards than before.
    pub fn agrees(&self, welcome: &Welcome) -> Result<(), Goodbye> {
        welcome.agree(self.cluster)?;
        if self.cluster.is_some() && welcome.sharding != self.sharding {
            let text = format!("expected a store with {:?}, got {:?}", self.sharding, welcome.sharding);
            return Err(Goodbye { reason: GoodbyeReason::WrongCluster, text });
        }
        Ok(())
    }

    /// Whether the store continues from where this end has last learned of it.
    ///
    /// # Errors
    /// `Done` if a copy of it is in its place, or it in a copy's.
    pub fn continues(&self, welcome: &Welcome) -> Result<(), Goodbye> {
        welcome.continues(self.life(), &self.named())
    }

    /// The store has answered, and what is known continues with it.
    pub fn welcomed(&mut self, welcome: &Welcome) {
        self.learn(welcome);
        (self.cluster, self.sharding, self.limits) = (Some(welcome.cluster), welcome.sharding, welcome.limits);
        self.phase = Phase::Resuming;
    }

    /// The store lives again behind the redirector that answers.
    pub fn learn(&mut self, welcome: &Welcome) {
        self.lineage = welcome.lineage.clone();
    }

    /// The comparison of what this end holds is over.
    pub fn joined(&mut self, now: Time) {
        self.phase = Phase::Live;
        self.missed = 0;
        self.heartbeat.pinged(now);
    }

    /// A message names these counts.
    pub fn hear_of(&mut self, counts: &Vector) {
        if matches!(self.phase, Phase::Resuming | Phase::Live) {
            self.named.join(counts);
        }
    }

    /// Everything through `through` has been heard; says whether that moves the horizon.
    pub fn heard_through(&mut self, through: &Vector) -> bool {
        self.horizon.join(through)
    }

    /// A heartbeat of the other end.
    pub fn heard(&mut self, now: Time) {
        self.heartbeat.heard(now);
    }

    /// Something has been said.
    pub fn sent(&mut self, now: Time) {
        self.heartbeat.sent(now);
    }

    /// A ping has been sent.
    pub fn pinged(&mut self, now: Time) {
        self.heartbeat.pinged(now);
    }

    /// When a ping is due.
    #[inline]
    pub fn ping_at(&self) -> Time {
        self.heartbeat.ping_at(self.limits)
    }

    /// Whether this end has pinged when it was to: else it cannot say whose the silence was.
    pub fn has_pinged(&self, now: Time) -> bool {
        self.heartbeat.has_pinged(now, self.limits)
    }

    /// Messages that wait for the next one go out soon by themselves.
    pub fn piggyback_by(&mut self, now: Time) {
        self.goes_by(now + PIGGYBACK);
    }

    /// An acknowledgement that waits for the next message goes out by itself later.
    pub fn acknowledge_by(&mut self, now: Time) {
        self.goes_by(now + ACKNOWLEDGE);
    }

    fn goes_by(&mut self, at: Time) {
        self.piggyback_at = Some(self.piggyback_at.map_or(at, |before| before.min(at)));
    }

    /// A message goes out: says whether what waits for it may go before it.
    pub fn piggyback(&mut self) -> bool {
        if self.is_live() {
            self.piggyback_at = None;
        }
        self.is_live()
    }

    /// Whether what waits for the next message has waited long enough.
    pub fn piggyback_is_due(&self, now: Time) -> bool {
        self.piggyback_at.is_some_and(|at| at <= now)
    }

    /// When something is due, where pings are sent at `ping_at`, if at all.
    #[inline]
    pub fn next_due(&self, ping_at: Option<Time>) -> Option<Time> {
        if !self.is_up() {
            return None;
        }
        let due = self.heartbeat.silent_at(self.limits);
        let due = ping_at.map_or(due, |at| due.min(at));
        let piggyback_at = self.piggyback_at.filter(|_| self.is_live());
        Some(piggyback_at.map_or(due, |at| due.min(at)))
    }

    /// The action that is due besides what waits for the next message, where pings are sent at `ping_at`, if at all.
    pub fn overdue(&self, now: Time, ping_at: Option<Time>) -> Option<Overdue> {
        if self.is_up() && self.heartbeat.silent_at(self.limits) <= now {
            let text = format!("nothing heard for {} ms", self.limits.silence_ms);
            return Some(Overdue::Silence(Goodbye { reason: GoodbyeReason::Silent, text }));
        }
        ping_at.filter(|&at| self.is_up() && at <= now).map(|_| Overdue::Ping)
    }
}
