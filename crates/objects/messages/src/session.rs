//! How a session begins, resumes, shows that it lives, and ends.
//!
//! ```text
//!   client                                store
//!     | Hello{client, epoch}  ------------> |   an older epoch of the client is fenced off
//!     | Resume{pages}, Resume{last} ------> |   lists each page, compares its version
//!     | <------------ Welcome{incarnation}  |
//!     | <-- Invalidations (what was missed) |
//!     | <----- Resumed{through, dropped}    |   from here on the horizon moves again
//! ```
//! A client with an empty cache sends one `Resume{last}` without pages: there is one way in.

use crate::{Lineage, PerShard};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use framing::field::check_count;
use framing::{Field, FieldLayout, Layout, Limits, Meta, Reader, Rest, WireError, fields, messages};
use machine::Goodbye;
use types::limits::{LIVES_KEPT, PAGES_PER_MESSAGE_MAX, TXN_PAGES_MAX};
use types::{
    ClientId, ClusterId, GoodbyeReason, Incarnation, Life, NodeId, PageId, PageRange, Sharding, Vector, Version,
};

/// Opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The features of the client beside what every client can, one bit each: [`crate::GROUP`], or
    /// [`crate::WATCH`], which has no meaning beside it.
    pub features: u64,
    /// The store that the client's cache belongs to; `None` for an empty cache.
    pub cluster: Option<ClusterId>,
    /// The client.
    pub client: ClientId,
    /// Counts the client's sessions. Of two sessions of one client the higher epoch lives.
    pub epoch: u64,
}

impl Hello {
    /// Whether the client's cache may meet pages of `cluster` at all.
    ///
    /// # Errors
    /// `WrongCluster` if it is of another store.
    pub fn agree(&self, cluster: ClusterId) -> Result<(), Goodbye> {
        match self.cluster {
            Some(got) if got != cluster => {
                let text = format!("expected a cache of store {cluster:?}, got one of {got:?}");
                Err(Goodbye { reason: GoodbyeReason::WrongCluster, text })
            }
            _ => Ok(()),
        }
    }
}

/// Accepts a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The client's features that its other end knows too.
    pub features: u64,
    /// The store's data set.
    pub cluster: ClusterId,
    /// The store node that answers.
    pub node: NodeId,
    /// Its process's life.
    pub incarnation: Incarnation,
    /// And the lives before it.
    pub lineage: Lineage,
    /// Which of the store's pages have counts in common.
    pub sharding: Sharding,
    /// The counts through which its masters have applied updates.
    pub through: Vector,
    /// The limits on the client's requests.
    pub limits: SessionLimits,
}

impl Welcome {
    /// Whether the session can continue, of a cache that belongs to `cluster` or to no store yet.
    ///
    /// # Errors
    /// `WrongCluster` if it is another store.
    pub fn agree(&self, cluster: Option<ClusterId>) -> Result<(), Goodbye> {
        if cluster.is_some_and(|cluster| cluster != self.cluster) {
            let text = format!("expected store {cluster:?}, got {:?}", self.cluster);
            return Err(Goodbye { reason: GoodbyeReason::WrongCluster, text });
        }
        Ok(())
    }

    /// Whether the store continues from where one is who has last learned of it in `life`, if ever, of its changes
    /// through `heard`.
    ///
    /// # Errors
    /// `Done` if a copy of the store is in its place, or the store in that of a copy: nothing that was heard counts
    /// there.
    pub fn continues(&self, life: Option<Life>, heard: &Vector) -> Result<(), Goodbye> {
        match life {
            Some(life) if !self.lineage.continues(life, heard) => {
                let text = format!("expected a store that has been through {heard:?} in its life {life:?}, got a copy");
                Err(Goodbye { reason: GoodbyeReason::Done, text })
            }
            _ => Ok(()),
        }
    }
}

/// The limits on the requests of one session to a store at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Pages being fetched.
    pub fetches: u32,
    /// Commit requests outstanding.
    pub commits: u32,
    /// Silence after which the other side is considered dead, in milliseconds; a ping is due at a third of it.
    pub silence_ms: u32,
}

impl SessionLimits {
    /// The limits until the store has told its own.
    pub const UNTOLD: Self = Self { fetches: 1, commits: 1, silence_ms: 10_000 };

    /// The silence after which the other side is considered dead.
    #[inline]
    pub fn silence(self) -> Duration {
        Duration::from_millis(u64::from(self.silence_ms.max(3)))
    }

    /// The silence after which a ping is due.
    #[inline]
    pub fn ping_after(self) -> Duration {
        Duration::from_nanos(u64::from(self.silence_ms.max(3)) * 1_000_000 / 3)
    }
}

fields! {
    /// A page that a client holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Held {
        /// The page.
        pub page: PageId,
        /// The version of the client's frame.
        pub version: Version,
    }
}

/// Some of what a client still holds. Several may follow one another; the last one says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The client's horizon: it has learned of every change to what it holds through here.
    pub horizon: Vector,
    /// Pages that it holds.
    pub pages: Vec<Held>,
    /// Pages that it was granted and has not filled yet.
    pub grants: Vec<PageRange>,
    /// Whether this is all.
    pub last: bool,
    /// The number of commits that the client has seen and this store has not, because it was restored to an older
    /// state. It is for the store's operators: the client itself begins with an empty cache.
    pub missed: u64,
}

impl Resume {
    /// Everything that a client holds, in as many messages as it takes.
    pub fn split(
        horizon: &Vector,
        pages: &[Held],
        grants: &[PageRange],
        missed: u64,
        limits: &types::Limits,
    ) -> Vec<Self> {
        let most = limits.pages_per_message;
        let messages = pages.len().max(grants.len()).div_ceil(most).max(1);
        let (mut pages, mut grants) = (pages.chunks(most), grants.chunks(most));
        let mut next = |message| Self {
            horizon: horizon.clone(),
            pages: pages.next().unwrap_or_default().to_vec(),
            grants: grants.next().unwrap_or_default().to_vec(),
            last: message == messages,
            missed,
        };
        (1..=messages).map(&mut next).collect()
    }
}

messages! {
    /// Everything named by the resumption is listed; invalidations of what was missed have gone before.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Resumed {
        /// The client's horizon once it has applied those invalidations and dropped `dropped`.
        pub through: Vector as PerShard,
        /// Pages that changed in ways the store no longer knows slot by slot: the client drops them.
        pub dropped: Vec<PageId> as Rest<TXN_PAGES_MAX>,
    }

    /// Are you there?
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ping {
        /// Comes back in the pong.
        pub nonce: u64,
    }

    /// Yes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Pong {
        /// The ping's.
        pub nonce: u64,
    }
}

/// The cluster stands behind whether there is one.
impl Layout for Hello {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + 4 * u64::BYTES);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        self.cluster.is_some().put(meta);
        (self.features, self.cluster.unwrap_or(ClusterId(0))).put(meta);
        (self.client, self.epoch).put(meta);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let has_cluster = bool::get("cluster flag", reader)?;
        let (features, cluster) = Field::get("features", reader)?;
        let (client, epoch) = Field::get("client", reader)?;
        Ok(Self { features, cluster: has_cluster.then_some(cluster), client, epoch })
    }
}

/// The lives follow, oldest first, each with the counts of changes at which it began.
impl Layout for Welcome {
    const LIMITS: Limits = Limits::bytes(u16::BYTES + 4 * u32::BYTES + 3 * u64::BYTES + Sharding::BYTES)
        .and(<PerShard as FieldLayout<Vector>>::LIMITS)
        .and_up_to(LIVES_KEPT * (Life::BYTES + PerShard::BYTES_MAX));

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let lives = self.lineage.lives();
        check_count("lives of a welcome", lives.len(), LIVES_KEPT)?;
        let SessionLimits { fetches, commits, silence_ms } = self.limits;
        (self.node, silence_ms).put(meta);
        (self.features, self.cluster).put(meta);
        (self.incarnation, self.sharding).put(meta);
        PerShard::put(&self.through, "through", meta)?;
        (fetches, (commits, lives.len() as u32)).put(meta);
        for (life, began) in lives {
            life.put(meta);
            PerShard::put(began, "life", meta)?;
        }
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (node, silence_ms) = Field::get("node", reader)?;
        let (features, cluster) = Field::get("features", reader)?;
        let (incarnation, sharding) = (Field::get("incarnation", reader)?, Field::get("shards", reader)?);
        let through = PerShard::get("through", reader)?;
        let (fetches, (commits, lives)) = <(u32, (u32, u32))>::get("limits", reader)?;
        check_count("lives of a welcome", lives as usize, LIVES_KEPT)?;
        let life = |reader: &mut Reader<'_>| Ok((Life::get("life", reader)?, PerShard::get("life", reader)?));
        let lineage = Lineage::new(reader.list(lives as usize, Life::BYTES + u16::BYTES, life)?);
        let limits = SessionLimits { fetches, commits, silence_ms };
        Ok(Self { features, cluster, node, incarnation, lineage, sharding, through, limits })
    }
}

/// How many pages there are, and how many grants, stand before both.
impl Layout for Resume {
    const LIMITS: Limits = Limits::bytes(u64::BYTES + 3 * u32::BYTES)
        .and(<PerShard as FieldLayout<Vector>>::LIMITS)
        .and_up_to(PAGES_PER_MESSAGE_MAX * (Held::BYTES + PageRange::BYTES));

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a resumption", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        check_count("grants of a resumption", self.grants.len(), PAGES_PER_MESSAGE_MAX)?;
        PerShard::put(&self.horizon, "horizon", meta)?;
        (self.pages.len() as u32, self.grants.len() as u32).put(meta);
        (self.last, self.missed).put(meta);
        self.pages.iter().for_each(|held| held.put(meta));
        self.grants.iter().for_each(|range| range.put(meta));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let horizon = PerShard::get("horizon", reader)?;
        let (pages, grants) = <(u32, u32)>::get("resume", reader)?;
        let (last, missed) = Field::get("last flag", reader)?;
        check_count("pages of a resumption", pages as usize, PAGES_PER_MESSAGE_MAX)?;
        check_count("grants of a resumption", grants as usize, PAGES_PER_MESSAGE_MAX)?;
        let pages = reader.list(pages as usize, Held::BYTES, |reader| Held::get("page", reader))?;
        let grants = reader.list(grants as usize, PageRange::BYTES, |reader| PageRange::get("grant", reader))?;
        Ok(Self { horizon, pages, grants, last, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_takes_as_many_messages_as_it_needs() {
        let held = |number| Held { page: PageId::new(1, number), version: Version(1) };
        let pages: Vec<_> = (0..=PAGES_PER_MESSAGE_MAX as u32).map(held).collect();
        let grants = [PageRange { first: PageId::new(2, 0), count: 1 }];
        let all = |pages: &[Held]| {
            let messages = Resume::split(&Version(7).into(), pages, &grants, 0, &types::Limits::SHIPPED);
            messages.iter().map(|one| (one.pages.len(), one.grants.len(), one.last)).collect::<Vec<_>>()
        };
        assert_eq!(all(&[]), [(0, 1, true)]);
        assert_eq!(all(&pages[1..]), [(PAGES_PER_MESSAGE_MAX, 1, true)]);
        assert_eq!(all(&pages), [(PAGES_PER_MESSAGE_MAX, 1, false), (1, 0, true)]);
    }
}
