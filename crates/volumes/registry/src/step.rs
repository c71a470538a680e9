//! The steps of a transaction over the registry's objects.

use super::entries::{Directory, Entry, Listed, MemberEntry, VolumeEntry};
use super::{RegistryError, Volume};
use bytes::Bytes;
use client::{Created, Read, TxnError, TxnHandle, Write};
use database::{Database, Error, block_on};
use machines::{PartitionId, VolumeId};
use std::collections::BTreeSet;
use std::task::Poll;
use types::ObjectId;

/// Why a step was not done.
pub(super) enum Failed {
    /// To try again may help, as the database says.
    Store(Error),
    Final(RegistryError),
}

impl From<RegistryError> for Failed {
    fn from(error: RegistryError) -> Self {
        Self::Final(error)
    }
}

/// The steps of a running transaction.
pub(super) struct Step<'a> {
    pub(super) database: &'a Database,
    pub(super) txn: TxnHandle,
    pub(super) spaces: Spaces,
}

/// The spaces of volumes and of members, by their numbers.
#[derive(Clone, Copy)]
pub(super) struct Spaces {
    pub(super) volumes: u32,
    pub(super) members: u32,
}

impl Step<'_> {
    /// The object that says where those of volumes are.
    pub(super) fn volumes(&self) -> ObjectId {
        ObjectId::root(self.spaces.volumes)
    }

    /// The same of members.
    pub(super) fn members(&self) -> ObjectId {
        ObjectId::root(self.spaces.members)
    }

    fn call<R>(
        &self,
        mut call: impl FnMut(&mut client::Client, types::Time, TxnHandle) -> Result<Poll<R>, TxnError>,
    ) -> Result<R, Failed> {
        block_on(self.database.wait(self.txn, |client, now| call(client, now, self.txn))).map_err(Failed::Store)
    }

    pub(super) fn is_read_only(&self) -> Result<bool, Error> {
        self.database.look(|client| client.is_read_only(self.txn)).map_err(|error| self.database.error(error))
    }

    pub(super) fn bytes(&self, object: ObjectId) -> Result<Option<Bytes>, Failed> {
        self.call(|client, now, txn| {
            Ok(match client.read(now, txn, object)? {
                Read::Value(bytes) => Poll::Ready(Some(Bytes::copy_from_slice(bytes))),
                Read::Absent => Poll::Ready(None),
                Read::Wait => Poll::Pending,
            })
        })
    }

    pub(super) fn read_or_default<E: Entry + Default>(&self, object: ObjectId) -> Result<E, Failed> {
        self.bytes(object)?.map_or_else(|| Ok(E::default()), |bytes| decode(&bytes))
    }

    pub(super) fn expect<E: Entry>(&self, object: ObjectId) -> Result<E, Failed> {
        decode(&self.bytes(object)?.unwrap_or_default())
    }

    pub(super) fn volume(&self, listed: &Listed) -> Result<Volume, Failed> {
        let entry = self.expect::<VolumeEntry>(listed.object())?;
        let (id, name) = (VolumeId(listed.id), listed.name.clone());
        let (view, holders, said_at) = (entry.view(), entry.holders(), entry.said_at());
        let gone_without = entry.gone_without();
        Ok(Volume { id, name, view, place: entry.place, holders, said_at, gone_without })
    }

    /// A volume as the directory has it.
    pub(super) fn listed(&self, volume: VolumeId) -> Result<Listed, Failed> {
        let directory = self.read_or_default::<Directory>(self.volumes())?;
        let listed = directory.entries.into_iter().find(|it| it.id == volume.0);
        Ok(listed.ok_or(RegistryError::NoSuchVolume(volume))?)
    }

    /// Where a volume's entry is.
    pub(super) fn place_of(&self, volume: VolumeId) -> Result<ObjectId, Failed> {
        Ok(self.listed(volume)?.object())
    }

    /// The entries of some members.
    pub(super) fn member_entries(&self, of: impl Fn(u64) -> bool) -> Result<Vec<MemberEntry>, Failed> {
        let directory = self.read_or_default::<Directory>(self.members())?;
        directory.entries.iter().filter(|it| of(it.id)).map(|it| self.expect(it.object())).collect()
    }

    /// Whether a volume counts on a member.
    pub(super) fn is_counted_on(&self, partition: PartitionId) -> Result<bool, Failed> {
        let directory = self.read_or_default::<Directory>(self.volumes())?;
        for listed in &directory.entries {
            if self.expect::<VolumeEntry>(listed.object())?.view().entry.holders.contains(&partition) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The entry of a member, and where it is.
    pub(super) fn member_entry(&self, partition: PartitionId) -> Result<Option<(ObjectId, MemberEntry)>, Failed> {
        let directory = self.read_or_default::<Directory>(self.members())?;
        let listed = directory.entries.iter().find(|it| it.id == partition.0);
        listed.map(|it| Ok((it.object(), self.expect(it.object())?))).transpose()
    }

    /// The bytes of everything that this party waits for changes of: those of these volumes, and who there is.
    pub(super) fn watched(&self, asked: &BTreeSet<VolumeId>) -> Result<Vec<Option<Bytes>>, Failed> {
        let mut found = vec![self.bytes(self.volumes())?, self.bytes(self.members())?];
        for &volume in asked {
            match self.place_of(volume) {
                Ok(object) => found.push(self.bytes(object)?),
                Err(Failed::Final(_)) => found.push(None),
                Err(failed) => return Err(failed),
            }
        }
        Ok(found)
    }

    pub(super) fn write<E: Entry>(&self, object: ObjectId, entry: &E) -> Result<(), Failed> {
        has_room(self.write_if_room(object, entry)?)
    }

    /// Writes it, if its page has room; says whether it has.
    pub(super) fn write_if_room<E: Entry>(&self, object: ObjectId, entry: &E) -> Result<bool, Failed> {
        let bytes = Bytes::from(entry.to_bytes());
        self.change(|client, now, txn| client.write(now, txn, object, bytes.clone()))
    }

    pub(super) fn delete(&self, object: ObjectId) -> Result<(), Failed> {
        has_room(self.change(|client, now, txn| client.delete(now, txn, object))?)
    }

    /// Returns whether the object's page has room for that.
    fn change(
        &self,
        mut change: impl FnMut(&mut client::Client, types::Time, TxnHandle) -> Result<Write, TxnError>,
    ) -> Result<bool, Failed> {
        self.call(|client, now, txn| {
            Ok(match change(client, now, txn)? {
                Write::Done => Poll::Ready(true),
                Write::Full => Poll::Ready(false),
                Write::Wait => Poll::Pending,
            })
        })
    }

    pub(super) fn create<E: Entry>(&self, space: u32, entry: &E) -> Result<ObjectId, Failed> {
        let bytes = Bytes::from(entry.to_bytes());
        self.call(|client, now, txn| {
            Ok(match client.create(now, txn, space, None, bytes.clone())? {
                Created::Object(object) => Poll::Ready(object),
                Created::Wait => Poll::Pending,
            })
        })
    }
}

fn has_room(has: bool) -> Result<(), Failed> {
    let full = || RegistryError::Damaged("a page of the registry has no room for it".to_owned());
    if has { Ok(()) } else { Err(full().into()) }
}

fn decode<E: Entry>(bytes: &[u8]) -> Result<E, Failed> {
    E::from_bytes(bytes).map_err(|what| Failed::Final(RegistryError::Damaged(what)))
}
