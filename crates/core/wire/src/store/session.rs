//! The bytes of the session messages.
//!
//! `Hello` and `Goodbye` keep their layout in every protocol: they are how two ends find out that they share none.

use crate::field::{check_count, flag};
use crate::layout::{Layout, Meta, Reader};
use crate::store::field::{self, HeldPage, Range};
use crate::{Limits, WireError};
use protocol::{Hello, Lineage, Ping, Pong, Rejoin, Rejoined, SessionLimits, Welcome};
use types::limits::{LIVES_KEPT, PAGES_PER_MESSAGE_MAX, TXN_PAGES_MAX};
use types::{ClientId, ClusterId, Incarnation, Life, NodeId, Version};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloMeta {
    protocol_min: U16,
    protocol_max: U16,
    /// Whether `cluster` says anything: 0 or 1.
    has_cluster: U32,
    features: U64,
    cluster: U64,
    client: U64,
    epoch: U64,
}

impl Layout for Hello {
    const LIMITS: Limits = Limits::fields::<HelloMeta>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&HelloMeta {
            protocol_min: self.protocol.0.into(),
            protocol_max: self.protocol.1.into(),
            has_cluster: u32::from(self.cluster.is_some()).into(),
            features: self.features.into(),
            cluster: self.cluster.map_or(0, |cluster| cluster.0).into(),
            client: self.client.0.into(),
            epoch: self.epoch.into(),
        });
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<HelloMeta>()?;
        Ok(Self {
            protocol: (meta.protocol_min.get(), meta.protocol_max.get()),
            features: meta.features.get(),
            cluster: flag("cluster flag", meta.has_cluster)?.then_some(ClusterId(meta.cluster.get())),
            client: ClientId(meta.client.get()),
            epoch: meta.epoch.get(),
        })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WelcomeMeta {
    protocol: U16,
    node: U16,
    silence_ms: U32,
    features: U64,
    cluster: U64,
    incarnation: U64,
    through: U64,
    fetches: U32,
    commits: U32,
    lives: U32,
}

/// A life of the store's process, and the count of changes at which it began.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LifeMeta {
    life: U64,
    began: U64,
}

/// The lives follow, oldest first.
impl Layout for Welcome {
    const LIMITS: Limits = Limits::fields::<WelcomeMeta>().and_many::<LifeMeta>(LIVES_KEPT);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let lives = self.lineage.lives();
        check_count("lives of a welcome", lives.len(), LIVES_KEPT)?;
        meta.put(&WelcomeMeta {
            protocol: self.protocol.into(),
            node: self.node.0.into(),
            silence_ms: self.limits.silence_ms.into(),
            features: self.features.into(),
            cluster: self.cluster.0.into(),
            incarnation: self.incarnation.0.into(),
            through: self.through.0.into(),
            fetches: self.limits.fetches.into(),
            commits: self.limits.commits.into(),
            lives: (lives.len() as u32).into(),
        });
        meta.put_all(lives.iter().map(|&(life, began)| LifeMeta { life: life.0.into(), began: began.0.into() }));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<WelcomeMeta>()?;
        check_count("lives of a welcome", meta.lives.get() as usize, LIVES_KEPT)?;
        let lives = reader.many::<LifeMeta>(meta.lives.get() as usize)?;
        let lives = lives.iter().map(|meta| (Life(meta.life.get()), Version(meta.began.get()))).collect();
        Ok(Self {
            protocol: meta.protocol.get(),
            features: meta.features.get(),
            cluster: ClusterId(meta.cluster.get()),
            node: NodeId(meta.node.get()),
            incarnation: Incarnation(meta.incarnation.get()),
            lineage: Lineage::new(lives),
            through: Version(meta.through.get()),
            limits: SessionLimits {
                fetches: meta.fetches.get(),
                commits: meta.commits.get(),
                silence_ms: meta.silence_ms.get(),
            },
        })
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RejoinMeta {
    horizon: U64,
    pages: U32,
    grants: U32,
    /// Whether this is all: 0 or 1.
    last: U32,
    missed: U64,
}

impl Layout for Rejoin {
    const LIMITS: Limits = Limits::fields::<RejoinMeta>()
        .and_many::<HeldPage>(PAGES_PER_MESSAGE_MAX)
        .and_many::<Range>(PAGES_PER_MESSAGE_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a rejoin", self.pages.len(), PAGES_PER_MESSAGE_MAX)?;
        check_count("grants of a rejoin", self.grants.len(), PAGES_PER_MESSAGE_MAX)?;
        meta.put(&RejoinMeta {
            horizon: self.horizon.0.into(),
            pages: (self.pages.len() as u32).into(),
            grants: (self.grants.len() as u32).into(),
            last: u32::from(self.last).into(),
            missed: self.missed.into(),
        });
        meta.put_all(self.pages.iter().map(HeldPage::from));
        meta.put_all(self.grants.iter().map(Range::from));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let meta = reader.get::<RejoinMeta>()?;
        check_count("pages of a rejoin", meta.pages.get() as usize, PAGES_PER_MESSAGE_MAX)?;
        check_count("grants of a rejoin", meta.grants.get() as usize, PAGES_PER_MESSAGE_MAX)?;
        Ok(Self {
            horizon: Version(meta.horizon.get()),
            pages: reader.many::<HeldPage>(meta.pages.get() as usize)?.iter().map(Into::into).collect(),
            grants: reader.many::<Range>(meta.grants.get() as usize)?.iter().map(Into::into).collect(),
            last: flag("last flag", meta.last)?,
            missed: meta.missed.get(),
        })
    }
}

impl Layout for Rejoined {
    const LIMITS: Limits = Limits::fields::<U64>().and_many::<U64>(TXN_PAGES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("pages of a rejoined", self.dropped.len(), TXN_PAGES_MAX)?;
        meta.put(&U64::new(self.through.0));
        meta.put_all(self.dropped.iter().map(|&page| field::page(page)));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let through = Version(reader.get::<U64>()?.get());
        Ok(Self { through, dropped: reader.rest()?.iter().map(|&page| field::to_page(page)).collect() })
    }
}

impl Layout for Ping {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.nonce));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { nonce: reader.get::<U64>()?.get() })
    }
}

impl Layout for Pong {
    const LIMITS: Limits = Limits::fields::<U64>();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(&U64::new(self.nonce));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { nonce: reader.get::<U64>()?.get() })
    }
}
