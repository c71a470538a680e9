//! Designs: what engineers share. A file of ISO 10303-21 becomes a graph of objects, one for each entity; the
//! crate `designs` says how it is stored.
//!
//! In the file a relation such as `IFCRELDEFINESBYPROPERTIES` refers to a window and to its properties; the window knows
//! nothing of it. So that one can walk from a window to everything it is made of, each object also links back to the
//! relations that say what it has.
//!
//! Objects lie in the order in which a walk comes by them ([`plan`]): objects that belong together are fetched
//! together.
//!
//! | file | what is in it |
//! |---|---|
//! | `missing` | references to entities that a file does not have |
//! | `plan` | in which order, and with which links back |
//! | `load`, `dump` | from a file into the store, in batches that can be resumed, and out again |
//! | `listing` | all designs, and how far they are |
//! | `removal` | out of the store for good, in batches |
//! | `walk` | the workload: walk to everything an element is made of, change a property of it |

mod dump;
mod listing;
mod load;
mod missing;
mod plan;
mod removal;
mod walk;

pub use designs::{DESIGNS, Design, Link, Object};
pub use dump::{dump, dump_in_parts};
pub use listing::{Listed, OWN_NAMES, Standing, listed};
pub use load::{How, LoadOptions, Loaded, NameTaken, Phase, Progress, load};
pub use missing::{Dangling, Missing};
pub use removal::{Removal, remove};
pub use walk::{Walk, change, pick, walk};

/// Designs that are being loaded to replace the ones of their names.
const REVISIONS: &str = "designs/revisions";

/// Relations of the IFC schema by which something has something else: the type, which parameter names the owners, and
/// which one what they have.
const RELATIONS: [(&str, usize, usize); 4] = [
    ("IFCRELAGGREGATES", 4, 5),
    ("IFCRELDEFINESBYPROPERTIES", 4, 5),
    ("IFCRELDEFINESBYTYPE", 4, 5),
    ("IFCRELASSOCIATESMATERIAL", 4, 5),
];

/// The types of the elements that the workload begins its walks at.
const ELEMENTS: [&str; 2] = ["IFCWINDOW", "IFCDOOR"];

#[cfg(test)]
mod tests;
