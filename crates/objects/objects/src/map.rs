//! An ordered map that transactions share: a B+tree whose nodes are objects.
//!
//! The root is an object that never moves: the map's identity. When it has to be split its entries go to two new
//! nodes, and it becomes the inner node above them. A leaf is the unit of conflict: two transactions that write
//! different leaves have only read the nodes above, which change when a leaf splits or goes. There is no count of the
//! entries, because everyone would have to write it, and no chain of leaves, because a split would write its
//! siblings.

use crate::cursor::Cursor;
use crate::key::{self, EncodeKey, KEY_BYTES_MAX, Key};
use crate::kinds::Kinds;
use crate::node::{DEPTH_MAX, Root, create_node, load_inner, load_node, look, root_object, store_node};
use crate::stamp::INTERNAL;
use crate::tree::{Entry, NODE_BYTES_LEAST, NODE_BYTES_TARGET, Payload, TreeNode, VALUE_BYTES_MAX, View};
use crate::tx::{Missing, Operation};
use crate::{Error, Mode, Near, Ref, Result, Tx, value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use types::ObjectId;

/// An ordered map from keys to values, shared by transactions: those that touch different parts of it do not are in
/// each other's way. The handle is a reference, a value itself, and has no effect until it is used with a transaction.
///
/// ```
/// # use objects as thorp;
/// use thorp::{Db, Map};
///
/// let db = Db::in_memory()?;
/// let stock: Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
/// db.transact(|tx| {
///     stock.insert(tx, "wheel", &4)?;
///     stock.insert(tx, "window", &6)?;
///     stock.insert(tx, "door", &2)
/// })?;
/// db.transact(|tx| {
///     assert_eq!(stock.get(tx, "wheel")?, Some(4));
///     assert_eq!(stock.first(tx)?, Some(("door".to_string(), 2)));
///     assert_eq!(stock.len(tx)?, 3);
///     Ok(())
/// })?;
/// # Ok::<(), thorp::Error>(())
/// ```
pub struct Map<K, V> {
    root: Ref<()>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Map<K, V> {
    /// The map whose root is this object. That it is one, with keys and values of these types, is checked when it is
    /// used.
    pub const fn new(root: Ref<Self>) -> Self {
        Self { root: root.cast(), types: PhantomData }
    }

    /// The object that is the map's root: its identity. Deleting it ends a map that is empty, and leaves nothing
    /// behind.
    pub const fn root(self) -> Ref<Self> {
        self.root.cast()
    }

    /// Where the map's root is.
    pub const fn id(self) -> ObjectId {
        self.root.id()
    }
}

impl<K: Key, V: DeserializeOwned> Map<K, V> {
    pub(crate) const KINDS: Kinds = Kinds::of::<Self, V>(K::TYPE);

    /// The root that operations begin at.
    pub(crate) fn begin_at(self) -> Root {
        Root::new(self.root, Self::KINDS)
    }

    /// Creates a map without a name, to be referred to from another object.
    ///
    /// ```
    /// # use objects as thorp;
    /// # use thorp::{Anywhere, Db, Map};
    /// # let db = Db::in_memory()?;
    /// let index: Map<(u32, String), u64> = db.transact(|tx| Map::create(tx, Anywhere))?;
    /// # db.transact(|tx| index.insert(tx, &(7, "seven".to_string()), &7))?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn create<M: Mode>(tx: &mut Tx<M>, near: impl Near) -> M::Out<impl Future<Output = Result<Self>>> {
        let near = near.near();
        M::run(async move {
            let operation = Operation::begin(tx);
            let begun = Self::begin(operation.tx, near).await;
            operation.end(begun)
        })
    }

    pub(crate) async fn begin<M: Mode>(tx: &mut Tx<M>, near: Option<ObjectId>) -> Result<Self> {
        tx.add_stamped(near, root_object(Self::KINDS, &TreeNode::EMPTY)).await.map(Self::new)
    }

    /// Sees that it is such a map that has this root.
    pub(crate) async fn check<M: Mode>(self, tx: &mut Tx<M>) -> Result<()> {
        let root = self.begin_at();
        look(tx, root, root.id(), |_| Some(())).await.map(drop)
    }
}

impl<K: Key, V: Serialize + DeserializeOwned> Map<K, V> {
    /// The value under `key`.
    pub fn get<M: Mode, Q>(&self, tx: &mut Tx<M>, key: &Q) -> M::Out<impl Future<Output = Result<Option<V>>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        M::run((*self).find(tx, key::encode(key)))
    }

    /// Puts a value under `key`, and gives the one that was there.
    pub fn insert<M: Mode, Q>(
        &self,
        tx: &mut Tx<M>,
        key: &Q,
        value: &V,
    ) -> M::Out<impl Future<Output = Result<Option<V>>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let (map, key, value) = (*self, key::encode(key), value::encode_bare(value));
        M::run(async move {
            let operation = Operation::begin(tx);
            let put = map.put(operation.tx, key, value).await;
            operation.end(put)
        })
    }

    /// Takes `key` and its value out, and gives the value.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// # db.transact(|tx| stock.insert(tx, "wheel", &4))?;
    /// assert_eq!(db.transact(|tx| stock.remove(tx, "wheel"))?, Some(4));
    /// assert_eq!(db.transact(|tx| stock.remove(tx, "wheel"))?, None);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn remove<M: Mode, Q>(&self, tx: &mut Tx<M>, key: &Q) -> M::Out<impl Future<Output = Result<Option<V>>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let (root, key) = (self.begin_at(), key::encode(key));
        M::run(async move {
            let operation = Operation::begin(tx);
            let taken = remove(operation.tx, root, &key).await;
            operation.end(taken)
        })
    }

    /// Whether there is a value under `key`. The value is not looked at.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// assert!(!db.transact(|tx| stock.contains_key(tx, "wheel"))?);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn contains_key<M: Mode, Q>(&self, tx: &mut Tx<M>, key: &Q) -> M::Out<impl Future<Output = Result<bool>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let (root, key) = (self.begin_at(), key::encode(key));
        M::run(async move { Ok(find(tx, root, &key, |_, _| ()).await?.is_some()) })
    }

    /// Changes what is under `key`: `change` is given the value that is there, if any, and gives the one that should be
    /// there, if any.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// db.transact(|tx| stock.update(tx, "wheel", |count| Some(count.unwrap_or(0) + 4)))?;
    /// assert_eq!(db.transact(|tx| stock.get(tx, "wheel"))?, Some(4));
    /// db.transact(|tx| stock.update(tx, "wheel", |_| None))?;
    /// assert_eq!(db.transact(|tx| stock.get(tx, "wheel"))?, None);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn update<M: Mode, Q>(
        &self,
        tx: &mut Tx<M>,
        key: &Q,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> M::Out<impl Future<Output = Result<()>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let (map, key) = (*self, key::encode(key));
        M::run(async move {
            let operation = Operation::begin(tx);
            let changed = map.change(operation.tx, key, change).await;
            operation.end(changed)
        })
    }

    /// Takes all entries out.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// db.transact(|tx| stock.insert(tx, "wheel", &4))?;
    /// db.transact(|tx| stock.clear(tx))?;
    /// assert!(db.transact(|tx| stock.is_empty(tx))?);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`] for a map of more than some ten megabytes: take it apart by
    /// [`Map::remove_range`], in several transactions.
    pub fn clear<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<()>>> {
        let root = self.begin_at();
        M::run(async move {
            let operation = Operation::begin(tx);
            let removed = remove_all::<M, K, V>(operation.tx, root, Bound::Unbounded, Bound::Unbounded).await;
            operation.end(removed.map(drop))
        })
    }

    /// Takes the entries out whose keys are in `range`, and gives how many there were.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let squares: thorp::Map<u32, u32> = db.transact(|tx| tx.map("squares"))?;
    /// db.transact(|tx| (0..10).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    /// assert_eq!(db.transact(|tx| squares.remove_range(tx, 2..9))?, 7);
    /// assert_eq!(db.transact(|tx| squares.iter().collect(tx))?, [(0, 0), (1, 1), (9, 81)]);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn remove_range<M: Mode, Q>(
        &self,
        tx: &mut Tx<M>,
        range: impl RangeBounds<Q>,
    ) -> M::Out<impl Future<Output = Result<usize>>>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let root = self.begin_at();
        let (lower, upper) = (range.start_bound().map(key::encode), range.end_bound().map(key::encode));
        M::run(async move {
            let operation = Operation::begin(tx);
            let removed = remove_all::<M, K, V>(operation.tx, root, lower, upper).await;
            operation.end(removed)
        })
    }

    /// A cursor over the entries whose keys are in `range`, in order.
    ///
    /// A transaction sees one moment, so one that reads a large part of a map begins again when somebody changes what
    /// it has read; under many writers it ends as [`Error::Contended`](crate::Error::Contended). Read in parts then:
    /// some keys in each transaction, and on from the last.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// let squares: thorp::Map<u32, u32> = db.transact(|tx| tx.map("squares"))?;
    /// db.transact(|tx| (0..10).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    /// let some = db.transact(|tx| squares.range(3..=5).collect(tx))?;
    /// assert_eq!(some, [(3, 9), (4, 16), (5, 25)]);
    /// let largest = db.transact(|tx| squares.range(..).backwards().next(tx))?;
    /// assert_eq!(largest, Some((9, 81)));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn range<Q>(&self, range: impl RangeBounds<Q>) -> Cursor<K, V>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Cursor::new(self.begin_at(), range.start_bound().map(key::encode), range.end_bound().map(key::encode))
    }

    /// A cursor over all entries, in order.
    #[expect(clippy::iter_not_returning_iterator, reason = "each step of a cursor needs the transaction")]
    pub fn iter(&self) -> Cursor<K, V> {
        Cursor::new(self.begin_at(), Bound::Unbounded, Bound::Unbounded)
    }

    /// The entry with the least key.
    pub fn first<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Option<(K, V)>>>> {
        let mut cursor = self.iter();
        M::run(async move { cursor.step(tx).await })
    }

    /// The entry with the greatest key.
    pub fn last<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Option<(K, V)>>>> {
        let mut cursor = self.iter().backwards();
        M::run(async move { cursor.step(tx).await })
    }

    /// How many entries there are. Reads every leaf, and so conflicts with every change.
    pub fn len<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<usize>>> {
        let cursor = self.iter();
        M::run(async move { cursor.count_entries(tx).await })
    }

    /// Whether there is no entry.
    pub fn is_empty<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<bool>>> {
        let mut cursor = self.iter();
        M::run(async move { Ok(!cursor.fill(tx).await?) })
    }
}

/// The operations as futures, for the layers that are built on them. Keys and values come encoded, so that the futures
/// borrow neither.
impl<K: Key, V: Serialize + DeserializeOwned> Map<K, V> {
    pub(crate) async fn find<M: Mode>(self, tx: &mut Tx<M>, key: Vec<u8>) -> Result<Option<V>> {
        get(tx, self.begin_at(), &key).await
    }

    pub(crate) async fn put<M: Mode>(self, tx: &mut Tx<M>, key: Vec<u8>, value: Result<Vec<u8>>) -> Result<Option<V>> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong(key.len()));
        }
        insert(tx, self.begin_at(), key, value?).await
    }

    async fn change<M: Mode>(
        self,
        tx: &mut Tx<M>,
        key: Vec<u8>,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<()> {
        let old = self.find(tx, key.clone()).await?;
        let is_there = old.is_some();
        match change(old) {
            Some(new) => self.put(tx, key, value::encode_bare(&new)).await.map(drop),
            None if is_there => self.take(tx, key).await.map(drop),
            None => Ok(()),
        }
    }

    pub(crate) async fn take<M: Mode>(self, tx: &mut Tx<M>, key: Vec<u8>) -> Result<Option<V>> {
        remove(tx, self.begin_at(), &key).await
    }
}

/// The answer of one node to a search.
enum Step<T> {
    Down(ObjectId),
    Leaf(T),
}

/// The inner nodes from the root down, each with the entry that was followed, and the leaf.
struct Path {
    inner: Vec<(ObjectId, usize)>,
    leaf: ObjectId,
}

/// The entry of an inner node that leads to `key`.
fn follow(view: View<'_>, key: &[u8]) -> Option<(usize, ObjectId)> {
    let at = view.count_below(|k| k <= key)?.checked_sub(1)?;
    Some((at, view.child(at)?))
}

async fn get<M: Mode, V: DeserializeOwned>(tx: &mut Tx<M>, root: Root, key: &[u8]) -> Result<Option<V>> {
    let found = find(tx, root, key, |leaf, payload| match payload {
        Payload::Here(bytes) => Payload::Here(value::decode_bare(leaf, bytes)),
        Payload::Elsewhere(object) => Payload::Elsewhere(object),
    });
    match found.await? {
        Some(Payload::Here(value)) => value.map(Some),
        Some(Payload::Elsewhere(object)) => tx.load(object).await.map(Some),
        None => Ok(None),
    }
}

/// Shows what is under `key`, and the leaf that it is in, to `see`.
async fn find<M: Mode, R>(
    tx: &mut Tx<M>,
    root: Root,
    key: &[u8],
    see: impl FnOnce(ObjectId, Payload<&[u8]>) -> R,
) -> Result<Option<R>> {
    let (mut node, mut see) = (root.id(), Some(see));
    for _ in 0..DEPTH_MAX {
        let step = look(tx, root, node, |view| {
            if !view.is_leaf() {
                return follow(view, key).map(|(_, child)| Step::Down(child));
            }
            let payload = view.find(key)?;
            if payload.is_empty() {
                return Some(Step::Leaf(None));
            }
            let see = see.take().expect("one leaf is seen");
            Some(Step::Leaf(Some(see(node, Payload::parse(payload)?))))
        });
        match step.await? {
            Some(Step::Down(child)) => node = child,
            Some(Step::Leaf(seen)) => return Ok(seen),
            None => return Ok(None),
        }
    }
    Err(Error::damaged(root.id(), "its map is deeper than a map can be"))
}

/// Takes a range's entries out, leaf by leaf.
async fn remove_all<M, K, V>(tx: &mut Tx<M>, root: Root, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Result<usize>
where
    M: Mode,
    K: Key,
    V: DeserializeOwned,
{
    let mut count = 0;
    loop {
        let keys = Cursor::<K, V>::new(root, lower.clone(), upper.clone()).next_leaf(tx).await?;
        let Some(first) = keys.first() else { return Ok(count) };
        let Path { inner, leaf } = descend(tx, root, first).await?;
        let mut node = load_node(tx, root, leaf).await?;
        for key in &keys {
            let Ok(at) = node.find(key) else { continue };
            let entry = node.entries.remove(at);
            if let Payload::Elsewhere(object) = payload_of(leaf, &entry)? {
                tx.remove(object).await?;
            }
        }
        shrink(tx, root, inner, leaf, node).await?;
        count += keys.len();
    }
}

async fn insert<M, V>(tx: &mut Tx<M>, root: Root, key: Vec<u8>, value: Vec<u8>) -> Result<Option<V>>
where
    M: Mode,
    V: DeserializeOwned,
{
    let Path { inner, leaf } = descend(tx, root, &key).await?;
    let mut node = load_node(tx, root, leaf).await?;
    let at = match node.find(&key) {
        Ok(at) => {
            let old = payload_of(leaf, &node.entries[at])?;
            let was = load_value(tx, leaf, &old).await?;
            let payload = replace_value(tx, leaf, &old, value).await?.to_bytes();
            if payload != node.entries[at].payload {
                node.entries[at].payload = payload;
                grow(tx, root, inner, leaf, node, at).await?;
            }
            return Ok(Some(was));
        }
        Err(at) => at,
    };
    let payload = place_value(tx, leaf, value).await?.to_bytes();
    node.entries.insert(at, Entry { key, payload });
    grow(tx, root, inner, leaf, node, at).await?;
    Ok(None)
}

async fn remove<M: Mode, V: DeserializeOwned>(tx: &mut Tx<M>, root: Root, key: &[u8]) -> Result<Option<V>> {
    let Path { inner, leaf } = descend(tx, root, key).await?;
    let mut node = load_node(tx, root, leaf).await?;
    let Ok(at) = node.find(key) else { return Ok(None) };
    let entry = node.entries.remove(at);
    let old = payload_of(leaf, &entry)?;
    let was = load_value(tx, leaf, &old).await?;
    if let Payload::Elsewhere(object) = old {
        tx.remove(object).await?;
    }
    shrink(tx, root, inner, leaf, node).await?;
    Ok(Some(was))
}

/// Finds the leaf that `key` belongs in.
async fn descend<M: Mode>(tx: &mut Tx<M>, root: Root, key: &[u8]) -> Result<Path> {
    let mut inner = Vec::new();
    let mut node = root.id();
    while inner.len() < DEPTH_MAX {
        let down = look(tx, root, node, |view| if view.is_leaf() { Some(None) } else { follow(view, key).map(Some) });
        match down.await?.flatten() {
            Some((at, child)) => {
                inner.push((node, at));
                node = child;
            }
            None => return Ok(Path { inner, leaf: node }),
        }
    }
    Err(Error::damaged(root.id(), "its map is deeper than a map can be"))
}

/// Writes a node that something was added to, splitting what is too large from there up.
async fn grow<M>(
    tx: &mut Tx<M>,
    root: Root,
    mut path: Vec<(ObjectId, usize)>,
    mut id: ObjectId,
    mut node: TreeNode,
    mut added_at: usize,
) -> Result<()>
where
    M: Mode,
{
    while node.bytes() > NODE_BYTES_TARGET {
        let (separator, right) = node.split(added_at);
        let Some((parent, at)) = path.pop() else {
            let left = create_node(tx, Some(id), &node).await?;
            let right = create_node(tx, Some(left), &right).await?;
            let entries = vec![Entry::child(Vec::new(), left), Entry::child(separator, right)];
            return store_node(tx, root, id, &TreeNode { leaf: false, entries }).await;
        };
        let right = create_node(tx, Some(id), &right).await?;
        store_node(tx, root, id, &node).await?;
        (id, node, added_at) = (parent, load_inner(tx, root, parent).await?, at + 1);
        node.entries.insert(added_at, Entry::child(separator, right));
    }
    store_node(tx, root, id, &node).await
}

/// Writes a node that something was taken from. One that is small joins a sibling, and so on up; a root with one
/// child becomes that child.
async fn shrink<M: Mode>(
    tx: &mut Tx<M>,
    root: Root,
    mut path: Vec<(ObjectId, usize)>,
    mut id: ObjectId,
    mut node: TreeNode,
) -> Result<()> {
    while let Some((parent_id, at)) = path.pop() {
        if node.bytes() >= NODE_BYTES_LEAST {
            return store_node(tx, root, id, &node).await;
        }
        let mut parent = load_inner(tx, root, parent_id).await?;
        if parent.entries.len() == 1 {
            return store_node(tx, root, id, &node).await;
        }
        let left_at = if at + 1 < parent.entries.len() { at } else { at - 1 };
        let (left_id, right_id) = (parent.child(left_at), parent.child(left_at + 1));
        let sibling = if id == left_id { right_id } else { left_id };
        let sibling = load_node(tx, root, sibling).await?;
        if node.bytes() + sibling.bytes() > NODE_BYTES_TARGET && !node.entries.is_empty() {
            return store_node(tx, root, id, &node).await;
        }
        let (mut left, right) = if id == left_id { (node, sibling) } else { (sibling, node) };
        left.join(&parent.entries.remove(left_at + 1).key, right);
        store_node(tx, root, left_id, &left).await?;
        tx.remove(right_id).await?;
        (id, node) = (parent_id, parent);
    }
    while !node.leaf && node.entries.len() == 1 {
        let child = node.child(0);
        node = load_node(tx, root, child).await?;
        tx.remove(child).await?;
    }
    store_node(tx, root, id, &node).await
}

fn payload_of(leaf: ObjectId, entry: &Entry) -> Result<Payload<&[u8]>> {
    Payload::parse(&entry.payload).ok_or_else(|| Error::damaged(leaf, "an entry of its map has no value"))
}

async fn load_value<M, V>(tx: &mut Tx<M>, leaf: ObjectId, payload: &Payload<&[u8]>) -> Result<V>
where
    M: Mode,
    V: DeserializeOwned,
{
    match payload {
        Payload::Here(bytes) => value::decode_bare(leaf, bytes),
        Payload::Elsewhere(object) => tx.load(*object).await,
    }
}

/// Stores a value for a leaf: in it, or near it when it is large.
async fn place_value<M: Mode>(tx: &mut Tx<M>, leaf: ObjectId, value: Vec<u8>) -> Result<Payload<Vec<u8>>> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(Payload::Here(value));
    }
    Ok(Payload::Elsewhere(tx.add(Some(leaf), value::inline_bare(&value), INTERNAL).await?))
}

/// Stores a value in place of an old one; a large one keeps its object.
async fn replace_value<M: Mode>(
    tx: &mut Tx<M>,
    leaf: ObjectId,
    old: &Payload<&[u8]>,
    value: Vec<u8>,
) -> Result<Payload<Vec<u8>>> {
    match *old {
        Payload::Elsewhere(object) if value.len() > VALUE_BYTES_MAX => {
            tx.store(object, value::inline_bare(&value), Missing::IsAnError).await?;
            return Ok(Payload::Elsewhere(object));
        }
        Payload::Elsewhere(object) => tx.remove(object).await?,
        Payload::Here(_) => {}
    }
    place_value(tx, leaf, value).await
}

impl<K, V> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Map<K, V> {}

impl<K, V> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

impl<K, V> Eq for Map<K, V> {}

impl<K, V> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({})", self.root)
    }
}

impl<K, V> Near for Map<K, V> {
    fn near(self) -> Option<ObjectId> {
        Some(self.root.id())
    }
}

impl<K, V> Serialize for Map<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.root.serialize(serializer)
    }
}

impl<'de, K, V> Deserialize<'de> for Map<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ref::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use database::block_on;

    #[test]
    fn a_map_that_is_emptied_is_one_leaf_again() {
        let db = Db::in_memory().unwrap();
        let map: Map<u32, u32> = db.transact(|tx| tx.map("numbers")).unwrap();
        for chunk in (0..20_000).collect::<Vec<u32>>().chunks(1_000) {
            db.transact(|tx| chunk.iter().try_for_each(|n| map.insert(tx, n, n).map(drop))).unwrap();
        }
        assert_eq!(db.transact(|tx| map.len(tx)).unwrap(), 20_000);
        for chunk in (0..20_000).collect::<Vec<u32>>().chunks(1_000) {
            db.transact(|tx| chunk.iter().try_for_each(|n| map.remove(tx, n).map(|old| assert_eq!(old, Some(*n)))))
                .unwrap();
        }
        let root = db.transact(|tx| block_on(load_node(tx, map.begin_at(), map.id()))).unwrap();
        assert_eq!(root, TreeNode::EMPTY);
    }
}
