//! Names: where everything in a store is found from.
//!
//! The directory of names is a map whose root is the space's first object. It needs no creation: the first one to put
//! a name in fills that slot, and of two who do so at once one is refused and tries again.

use crate::byte_value::ByteValue;
use crate::key::{self, Key};
use crate::map::Map;
use crate::stamp::INTERNAL;
use crate::tx::Operation;
use crate::{Error, Mode, Ref, Result, Tx, value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::Future;
use types::ObjectId;

/// The object that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Named {
    Object(Ref<()>),
    Map(Ref<()>),
    Bytes(Ref<()>),
}

impl Named {
    fn object<T>(self, name: &str) -> Result<Ref<T>> {
        match self {
            Self::Object(object) => Ok(object.cast()),
            other => Err(other.wrong_kind(name, "an object")),
        }
    }

    fn map<K, V>(self, name: &str) -> Result<Map<K, V>> {
        match self {
            Self::Map(root) => Ok(Map::new(root.cast())),
            other => Err(other.wrong_kind(name, "a map")),
        }
    }

    fn bytes(self, name: &str) -> Result<ByteValue> {
        match self {
            Self::Bytes(root) => Ok(ByteValue::new(root.cast())),
            other => Err(other.wrong_kind(name, "a byte value")),
        }
    }

    fn wrong_kind(self, name: &str, asked: &str) -> Error {
        let stored = match self {
            Self::Object(_) => "an object",
            Self::Map(_) => "a map",
            Self::Bytes(_) => "a byte value",
        };
        Error::wrong_kind(format!("'{name}'"), stored, asked, None)
    }

    /// The map, if it is one of these types.
    async fn map_checked<M, K, V>(self, tx: &mut Tx<M>, name: &str) -> Result<Map<K, V>>
    where
        M: Mode,
        K: Key,
        V: DeserializeOwned,
    {
        let map = self.map(name)?;
        match map.check(tx).await {
            Err(Error::WrongKind { stored, asked, why, .. }) => {
                Err(Error::wrong_kind(format!("'{name}'"), stored, asked, why))
            }
            checked => checked.map(|()| map),
        }
    }
}

/// The directory of the transaction's space. It was never created, and so never stamped.
fn directory<M: Mode>(tx: &Tx<M>) -> Map<String, Named> {
    Map::new(Ref::new(ObjectId::root(tx.space), INTERNAL))
}

impl<M: Mode> Tx<M> {
    /// The object that goes by this name.
    pub fn root<T>(&mut self, name: &str) -> M::Out<impl Future<Output = Result<Option<Ref<T>>>>> {
        M::run(async move {
            let named = directory(self).find(self, key::encode(name)).await?;
            named.map(|named| named.object(name)).transpose()
        })
    }

    /// Returns an object a name, by which it is found from now on instead of the object that had it.
    ///
    /// ```
    /// # use objects as thorp;
    /// use thorp::{Anywhere, Db};
    ///
    /// let db = Db::in_memory()?;
    /// db.transact(|tx| {
    ///     let counter = tx.create(Anywhere, &7_u64)?;
    ///     tx.set_root("counter", counter)
    /// })?;
    /// let count = db.transact(|tx| match tx.root::<u64>("counter")? {
    ///     Some(counter) => tx.get(counter),
    ///     None => Ok(0),
    /// })?;
    /// assert_eq!(count, 7);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the name is a map's.
    pub fn set_root<T>(&mut self, name: &str, object: Ref<T>) -> M::Out<impl Future<Output = Result<()>>> {
        let (name, named) = (name.to_owned(), value::encode_bare(&Named::Object(object.cast())));
        M::run(async move {
            let operation = Operation::begin(self);
            let set = operation.tx.give_name(&name, named).await;
            operation.end(set)
        })
    }

    /// Takes a name away. The object that it stood for stays; deleting it is up to the caller.
    pub fn remove_root(&mut self, name: &str) -> M::Out<impl Future<Output = Result<()>>> {
        let key = key::encode(name);
        M::run(async move {
            let operation = Operation::begin(self);
            let taken = directory(operation.tx).take(operation.tx, key).await;
            operation.end(taken.map(drop))
        })
    }

    /// The map that goes by this name, created when it is first asked for.
    ///
    /// ```
    /// # use objects as thorp;
    /// # use thorp::{Db, Map};
    /// # let db = Db::in_memory()?;
    /// let ages: Map<String, u8> = db.transact(|tx| tx.map("ages"))?;
    /// db.transact(|tx| ages.insert(tx, "Ada", &36))?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the name is an object's, or that of a map with other keys or values.
    pub fn map<K, V>(&mut self, name: &str) -> M::Out<impl Future<Output = Result<Map<K, V>>>>
    where
        K: Key,
        V: DeserializeOwned,
    {
        let name = name.to_owned();
        M::run(async move {
            let operation = Operation::begin(self);
            let map = operation.tx.map_of_name(&name).await;
            operation.end(map)
        })
    }

    /// The map that goes by this name, if there is one.
    pub fn find_map<K, V>(&mut self, name: &str) -> M::Out<impl Future<Output = Result<Option<Map<K, V>>>>>
    where
        K: Key,
        V: DeserializeOwned,
    {
        M::run(async move {
            let named = directory(self).find(self, key::encode(name)).await?;
            match named {
                Some(named) => named.map_checked(self, name).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// The byte value that goes by this name, created when it is first asked for.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// db.transact(|tx| tx.bytes("image")?.write(tx, 0, b"pixels"))?;
    /// assert_eq!(db.transact(|tx| tx.bytes("image")?.read(tx, 2..4))?, b"xe");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongKind`] if the name is that of an object or of a map.
    pub fn bytes(&mut self, name: &str) -> M::Out<impl Future<Output = Result<ByteValue>>> {
        let name = name.to_owned();
        M::run(async move {
            let operation = Operation::begin(self);
            let bytes = operation.tx.bytes_of_name(&name).await;
            operation.end(bytes)
        })
    }

    /// The byte value that goes by this name, if there is one.
    pub fn find_bytes(&mut self, name: &str) -> M::Out<impl Future<Output = Result<Option<ByteValue>>>> {
        M::run(async move {
            let named = directory(self).find(self, key::encode(name)).await?;
            named.map(|named| named.bytes(name)).transpose()
        })
    }

    /// All names.
    pub fn names(&mut self) -> M::Out<impl Future<Output = Result<Vec<String>>>> {
        let mut cursor = directory(self).iter();
        M::run(async move {
            let mut names = Vec::new();
            while let Some((name, _)) = cursor.step(self).await? {
                names.push(name);
            }
            Ok(names)
        })
    }
}

impl<M: Mode> Tx<M> {
    async fn give_name(&mut self, name: &str, named: Result<Vec<u8>>) -> Result<()> {
        let key = key::encode(name);
        if let Some(before) = directory(self).find(self, key.clone()).await? {
            before.object::<()>(name)?;
        }
        directory(self).put(self, key, named).await.map(drop)
    }

    /// All names, with what they stand for: whether that is a map, and where it is.
    pub(crate) async fn all_named(&mut self) -> Result<Vec<(String, bool, Ref<()>)>> {
        let (mut cursor, mut all) = (directory(self).iter(), Vec::new());
        while let Some((name, named)) = cursor.step(self).await? {
            all.push(match named {
                Named::Object(object) => (name, false, object),
                Named::Map(root) => (name, true, root),
                Named::Bytes(root) => (name, false, root),
            });
        }
        Ok(all)
    }

    /// The map that goes by this name, which begins now if there is none.
    async fn map_of_name<K: Key, V: DeserializeOwned>(&mut self, name: &str) -> Result<Map<K, V>> {
        let key = key::encode(name);
        if let Some(named) = directory(self).find(self, key.clone()).await? {
            return named.map_checked(self, name).await;
        }
        let map = Map::begin(self, None).await?;
        directory(self).put(self, key, value::encode_bare(&Named::Map(map.root().cast()))).await?;
        Ok(map)
    }

    /// The byte value that goes by this name, which begins now if there is none.
    async fn bytes_of_name(&mut self, name: &str) -> Result<ByteValue> {
        let key = key::encode(name);
        if let Some(named) = directory(self).find(self, key.clone()).await? {
            return named.bytes(name);
        }
        let bytes = ByteValue::begin(self, None).await?;
        directory(self).put(self, key, value::encode_bare(&Named::Bytes(bytes.root().cast()))).await?;
        Ok(bytes)
    }
}
