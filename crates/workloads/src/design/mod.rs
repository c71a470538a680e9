//! Designs: what engineers share. A file of ISO 10303-21 becomes a graph of objects, one for each entity.
//!
//! ```text
//!   "designs" --> Design --> entities: number -> Object      Object: the entity, its references as links,
//!                   |                                                and the relations that say what it has
//!                   `--> elements: the windows and doors
//! ```
//! In the file a relation such as `IFCRELDEFINESBYPROPERTIES` refers to a window and to its properties; the window knows
//! nothing of it. So that one can walk from a window to everything it is made of, each object also links back to the
//! relations that say what it has.
//!
//! Objects lie in the order in which a walk comes by them ([`plan`]): objects that belong together are fetched
//! together.
//!
//! | file | what is in it |
//! |---|---|
//! | `schema` | how a design stands in the store |
//! | `plan` | in which order, and with which links back |
//! | `load`, `dump` | from a file into the store, in batches that can be resumed, and out again |
//! | `removal` | out of the store for good, in batches |
//! | `walk` | the workload: walk to everything an element is made of, change a property of it |

mod dump;
mod load;
mod plan;
mod removal;
mod schema;
mod walk;

pub use dump::{dump, dump_in_parts};
pub use load::{How, Loaded, NameTaken, Phase, Progress, load};
pub use removal::{Removal, removable, remove};
pub use schema::{DESIGNS, Design, Link, Object};
pub use walk::{Walk, change, walk};

#[cfg(test)]
mod tests;
