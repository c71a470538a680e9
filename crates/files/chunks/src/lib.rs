//! The chunks of published files on a disk: immutable bytes under the hash of their content.
//!
//! ```text
//!   put --> verify --> large: file.tmp, sync, rename, sync the folders --> commit the table: small ones, and the
//!                  +-> or an object, acknowledged by the bucket       -->  names of the large ones
//!   get --> table --> small: the value                --> verify --> bytes, or `Damaged`
//!                 +-> large: the file, or the object  -->
//! ```
//! A chunk of at most [`SMALL_BYTES_MAX`] bytes is a value in one redb table, a larger one is a file. A store that
//! keeps its large chunks in a bucket ([`Chunks::keep_in_bucket`]) has those of content there, and the nodes of trees
//! on its disk: what decides about a publish never waits for a bucket.
//!
//! 1. **The table decides which chunks there are.** A large chunk enters it after its file and the file's name are
//!    durable, or its object is, in the same transaction as the small chunks of its batch. So [`Chunks::missing`] never
//!    calls a chunk present that a power failure could take, and a file or object that is not in the table is a
//!    leftover.
//! 2. **Each chunk is compared with its name** when it is put and whenever it is read.
//! 3. **Damage is repaired by another `put`.** A chunk that [`Chunks::get`] or [`Chunks::verify`] found damaged is
//!    missing from then on: `missing` lists it, and `put` replaces it. This is remembered in memory only; after a
//!    restart the next read finds the damage again.
//! 4. **One writer at a time**, and any number of readers, which wait for it only if they find damage. A
//!    thread never waits for a bucket while it is the writer.
//! 5. **A full disk** refuses a `put` and nothing else. A sweep on a full disk uses the room that was kept aside.
//! 6. **A bucket that fails** or does not answer in time refuses the call that needs it, as `bucket`. Its chunks are
//!    neither missing nor damaged.
//!
//! | module | duty |
//! |---|---|
//! | `limits` | sizes and counts |
//! | `error` | the errors, with their names |
//! | `bucket_url` | the address of a bucket |
//! | `bucket` | the objects of large chunks |
//! | `directory` | the lock and the marker of a directory |
//! | `backend` | the file under redb |
//! | `database` | redb, opened again after an error |
//! | `table` | which chunks there are, and the small ones |
//! | `folders` | the files of large chunks |
//! | `store` | open, missing, put, get, size |
//! | `home` | the choice of a bucket |
//! | `walk` | all chunks in turn: for_each, verify |
//! | `sweep` | removal of unused chunks |

mod backend;
mod bucket;
mod bucket_url;
mod database;
mod directory;
mod error;
mod folders;
mod home;
mod limits;
mod store;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub use bucket_url::BucketUrl;
pub use error::ChunkError;
pub use limits::{CHUNK_BYTES_MAX, SMALL_BYTES_MAX};
pub use store::Chunks;
pub use sweep::Swept;
pub use walk::Condition;
