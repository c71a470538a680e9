//! The bounds of trees: what a writer may make, and what a reader accepts.

/// The bytes of a name in a directory, as file systems have it.
pub const NAME_BYTES_MAX: usize = 255;

/// The bytes of a symbolic link's target.
pub const TARGET_BYTES_MAX: usize = 4095;

/// The bytes of an entry's extended attributes together, names and values.
pub const XATTRS_BYTES_MAX: usize = 16 * 1024;

/// The bytes of content in an entry itself.
pub const INLINE_BYTES_MAX: usize = 512;

/// The bytes of a chunk: of content, or of a node.
pub const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The bytes of a node up to which a directory is not cut.
pub const NODE_BYTES: usize = 64 * 1024;

/// The bytes at which a leaf is cut whatever its names are.
pub const LEAF_BYTES_MAX: usize = 256 * 1024;

/// Pieces of a file in its entry. The pieces of larger files are in lists.
pub const PIECES_MAX: usize = 64;

/// Pieces in a list, and lists in an entry.
pub const LIST_PIECES_MAX: usize = 4096;

/// Directories below each other, and levels of index nodes of one directory.
pub const DEPTH_MAX: usize = 256;

/// Edits in a list. Above it, a receiver compares trees.
pub const EDITS_MAX: usize = 1000;

/// The bytes of a list of edits.
pub const EDITS_BYTES_MAX: usize = 1024 * 1024;

/// The bytes of the paths of a list of edits, each written out: few bytes can share a long path a thousand times.
pub const EDIT_PATHS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The names at which two trees may differ from their base to be merged. One directory
/// can be named in a million places, so without bounds a merge of small trees would not end.
pub const MERGE_NAMES_MAX: usize = 2_000_000;

/// Nodes that a merge reads.
pub const MERGE_NODES_MAX: usize = 500_000;
