//! Objects in a running transaction, wherever their values are: in their slots, or in chains behind them.

use crate::format::Kind;
use crate::stamp::{INTERNAL, Stamp};
use crate::tx::{Fits, Missing, Tx};
use crate::value::{self, Chain, HEADER_BYTES, Slot, Target, Value, Wanted};
use crate::{Error, Mode, Ref, Result, chain};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use types::ObjectId;
use types::limits::OBJECT_BYTES_MAX;

/// The operations as futures, for the layers that are built on them.
impl<M: Mode> Tx<M> {
    /// Shows an object's value to `look`, wherever it is stored; `None` if there is no such object.
    #[inline]
    pub(crate) async fn fetch<R>(
        &mut self,
        target: impl Into<Target>,
        wanted: Wanted,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let target = target.into();
        let mut look = match self.try_now(target, wanted.kind, look) {
            Ok(seen) => return Ok(Some(seen)),
            Err(look) => Some(look),
        };
        let see = |bytes: &[u8]| -> Result<_> {
            let Some(slot) = Slot::parse(target, bytes)? else { return Ok(None) };
            Ok(Some(match slot.wanted(target.object, wanted)? {
                Value::Inline(value) => Ok(look.take().expect("only looked at once")(value)),
                Value::Chain(chain) => Err(chain),
            }))
        };
        let found = self.read_slot(target.object, see).await?.transpose()?;
        match found.flatten() {
            None => Ok(None),
            Some(Ok(seen)) => Ok(Some(seen)),
            Some(Err(chain)) => {
                let value = chain::read(self, target.object, chain).await?;
                Ok(Some(look.take().expect("not looked at yet")(&value)))
            }
        }
    }

    /// The typed value of an object.
    #[inline]
    pub(crate) async fn load<T: DeserializeOwned>(&mut self, target: impl Into<Target>) -> Result<T> {
        let target = target.into();
        let object = target.object;
        let decoded = self.fetch(target, Wanted::value::<T>(), |bytes| value::decode(object, bytes)).await?;
        decoded.unwrap_or(Err(Error::NoSuchObject(object)))
    }

    /// Writes an encoded value to an object, inline if it fits, else as a chain. The object keeps its stamp.
    pub(crate) async fn store(
        &mut self,
        target: impl Into<Target>,
        mut encoded: Vec<u8>,
        missing: Missing,
    ) -> Result<()> {
        check_size(&encoded)?;
        let target = target.into();
        let object = target.object;
        let kind = value::kind_of(&encoded);
        let (stamp, old) = match self.owner_of(target, Some(kind)).await? {
            Some(owner) => owner,
            None if missing == Missing::IsCreated => (INTERNAL, None),
            None => return Err(Error::NoSuchObject(object)),
        };
        value::set_stamp(&mut encoded, stamp);
        let encoded = Bytes::from(encoded);
        let inline = encoded.len() <= value::INLINE_BYTES_MAX && self.write(object, &encoded).await? == Fits::Yes;
        if inline {
            return match old {
                Some(chain) => chain::delete(self, object, chain).await,
                None => Ok(()),
            };
        }
        let chain = chain::write(self, object, old, &encoded[HEADER_BYTES..]).await?;
        match self.write(object, &Bytes::from(chain.to_bytes(kind, stamp))).await? {
            Fits::Yes => Ok(()),
            Fits::No => Err(Error::Refused(types::Refusal::PageFull(object.page))),
        }
    }

    /// Creates an object with an encoded value, for references.
    pub(crate) async fn add_stamped<T: ?Sized>(&mut self, near: Option<ObjectId>, encoded: Vec<u8>) -> Result<Ref<T>> {
        let stamp = self.stamps.draw();
        Ok(Ref::new(self.add(near, encoded, stamp).await?, stamp))
    }

    /// Creates an object with an encoded value.
    pub(crate) async fn add(&mut self, near: Option<ObjectId>, mut encoded: Vec<u8>, stamp: Stamp) -> Result<ObjectId> {
        check_size(&encoded)?;
        let kind = value::kind_of(&encoded);
        value::set_stamp(&mut encoded, stamp);
        let space = near.map_or(self.space, |near| near.page.space);
        if encoded.len() <= value::INLINE_BYTES_MAX {
            return self.create_slot(space, near, Bytes::from(encoded)).await;
        }
        // The descriptor comes first, so that the head can lie near it.
        let object = self.create_slot(space, near, Bytes::from(value::inline(kind, 0))).await?;
        let chain = chain::write(self, object, None, &encoded[HEADER_BYTES..]).await?;
        self.write(object, &Bytes::from(chain.to_bytes(kind, stamp))).await?;
        Ok(object)
    }

    /// Deletes an object and the chain behind it.
    pub(crate) async fn remove(&mut self, target: impl Into<Target>) -> Result<()> {
        let target = target.into();
        let (_, chain) = self.owner_of(target, None).await?.ok_or(Error::NoSuchObject(target.object))?;
        if let Some(chain) = chain {
            chain::delete(self, target.object, chain).await?;
        }
        self.delete_slot(target.object).await
    }

    /// The stamp of an object and the chain behind it, if it has one; `None` if there is no such object. The value in
    /// the place of a map's node, or one that comes to be there, must be a node too. No value takes the place of the
    /// root of a byte value.
    async fn owner_of(&self, target: Target, becomes: Option<Kind>) -> Result<Option<(Stamp, Option<Chain>)>> {
        let owner = self
            .read_slot(target.object, |bytes| -> Result<_> {
                let Some(slot) = Slot::parse(target, bytes)? else { return Ok(None) };
                let may_become =
                    |kind: Kind| kind.is_of_map() == slot.kind.is_of_map() && !slot.kind.is_of_byte_value();
                if becomes.is_some_and(|kind| !may_become(kind)) {
                    return Err(slot.wrong_kind(target.object, "an object to overwrite"));
                }
                Ok(Some(match slot.value {
                    Value::Inline(_) => (slot.stamp, None),
                    Value::Chain(chain) => (slot.stamp, Some(chain)),
                }))
            })
            .await?;
        Ok(owner.transpose()?.flatten())
    }
}

fn check_size(encoded: &[u8]) -> Result<()> {
    let bytes = encoded.len() - HEADER_BYTES;
    if bytes > OBJECT_BYTES_MAX { Err(Error::ObjectTooLarge(bytes)) } else { Ok(()) }
}
