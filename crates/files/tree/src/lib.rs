//! Trees of files as chunks named by their hashes: one hash names, and verifies, a whole site.
//!
//! ```text
//!   root hash --> directory: entries sorted by name
//!                   file, at most 512 bytes: the content
//!                   file: hashes of chunks of content, or of lists of them
//!                   directory: the hash of its node ---> directory ...
//! ```
//! A directory of more than [`limits::NODE_BYTES`] is cut into leaves under index nodes. The cuts depend on the entries
//! alone, so equal directories have equal hashes, and a small change changes one leaf for each level above it. Nothing
//! here reads a disk or a clock: chunks come from a [`Source`], and new ones leave by a [`Sink`].
//!
//! | module | duty |
//! |---|---|
//! | `hash` | names of chunks |
//! | `name` | names in a directory, and paths of them |
//! | `entry` | files, directories and symbolic links, with their attributes |
//! | `fields` | entries as bytes |
//! | `node` | directories as nodes, and their cuts |
//! | `source` | where chunks come from and go to, and errors |
//! | `read` | lists, lookups, and the pieces of a file |
//! | `pairs` | two directories side by side |
//! | `diff` | the differences between two trees |
//! | `edit` | a change at a path, and its bytes |
//! | `edits` | the differences as a short list that is sent and applied |
//! | `merge` | two trees with the changes of both since a third |
//! | `links` | hard links in a merge |
//! | `older` | lookups in the older of two directories |
//! | `rewrite` | a directory with some entries changed |
//! | `descend` | the chunks of a newer tree that are missing beside an older one |
//! | `mark` | the chunks of a tree |
//! | `walk` | the chunks of a tree with their paths, behind damaged ones too |
//! | `limits` | the bounds of all of them |
#![no_std]

extern crate alloc;

mod descend;
mod diff;
mod edit;
mod edits;
mod entry;
mod fields;
mod hash;
pub mod limits;
mod links;
mod mark;
mod merge;
mod name;
mod node;
mod older;
mod pairs;
mod read;
mod rewrite;
mod source;
mod walk;

pub use descend::{Descent, Parts, Step, descend};
pub use diff::{Change, Comparison, diff};
pub use edit::Edit;
pub use edits::{ApplyError, Edits, apply};
pub use entry::{Attributes, Content, Entry, Kind, Piece, Time};
pub use fields::{decode_entry, encode_entry};
pub use hash::ChunkHash;
pub use mark::mark;
pub use merge::{Growth, Merge, MergeError, Sides, merge};
pub use name::{BadName, Name, Path, PathError};
pub use node::{Node, is_node, write_directory, write_pieces};
pub use read::{Tree, find, named, nodes_below, pieces};
pub use source::{Malformed, ReadError, Sink, Source};
pub use walk::{Needed, Part, Visitor, walk};
