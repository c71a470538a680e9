//! An application that is a node of a store of several. With the feature `cluster`.

use crate::{Builder, Db, Result};
use database::block_on;
use std::net::SocketAddr;
use std::path::Path;

impl Db {
    /// Makes this process a node of the store at `url`, such as `etcd://127.0.0.1:2379/main`, with its part of the
    /// store in a directory. Reads of the node's own pages cost no message. A commit on its own shards costs one round
    /// trip, to the sequencer. The directory remembers which node it is of; a new one is told by [`Builder::node`].
    /// Other nodes reach this one at a free port of this machine unless [`Builder::listen`] says where.
    ///
    /// A node loses its lease if etcd is away for too long. Until it has another one, transactions on its own shards
    /// wait, for as long as [`Builder::patience`] says, and others use the other nodes.
    /// [`Db::close`] closes the node's shards in order, so that its next start waits for no other node.
    ///
    /// ```no_run
    /// # use objects as thorp;
    /// let db = thorp::Db::builder().node("n1").join("etcd://127.0.0.1:2379/main", "shed")?;
    /// db.transact(|tx| tx.map::<String, u64>("parts")?.insert(tx, "wheel", &4))?;
    /// db.close()?;
    ///
    /// let db = thorp::Db::join("etcd://127.0.0.1:2379/main", "shed")?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Open`] with a line that says what is wrong and what to do. Either etcd does not answer, or has
    /// no such store or node; or the directory is another node's, or an old copy; or the name is in use.
    pub fn join(url: &str, dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder().join(url, dir)
    }
}

impl Builder {
    /// The name of the node that [`Builder::join`] makes of this process, among those that `thorp cluster create` or
    /// `thorp cluster add` has named. A directory that has been a node's remembers it.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node.name = Some(name.into());
        self
    }

    /// Where other nodes and clients reach the node of [`Builder::join`]; a free port of this machine by default, for
    /// this machine alone. Beyond it, [`Builder::insecure`] must say that the network is trusted.
    pub fn listen(mut self, listen: SocketAddr) -> Self {
        self.node.listen = listen;
        self
    }

    /// The address that other nodes and clients are told, if it is not the one of [`Builder::listen`].
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.node.advertise = Some(address.into());
        self
    }

    /// Makes this process a node, see [`Db::join`].
    pub fn join(self, url: &str, dir: impl AsRef<Path>) -> Result<Db> {
        let config = self.of_objects()?;
        let database = self.node.join(url, dir.as_ref(), &config)?;
        block_on(self.enter(database))
    }
}
