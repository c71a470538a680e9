//! Designs from files and back. A file becomes a graph of objects, one for each entity.
//!
//! In the file a relation such as `IFCRELDEFINESBYPROPERTIES` refers to a window and to its properties; the window has
//! no reference to it. Each object also links back to the relations in which it owns something, so an application can
//! walk from a window to everything it is made of.
//!
//! Objects are created in the order of such a walk (`plan`), so objects that belong together are fetched together.
//!
//! | file | what is in it |
//! |---|---|
//! | `missing` | references to entities that a file does not have |
//! | `plan` | the order of the objects, and their links back |
//! | `load`, `dump` | from a file into the store, in batches that can be resumed, and out again |
//! | `listing` | all designs, and how far each is |
//! | `removal` | out of the store for good, in batches |

mod dump;
mod listing;
mod load;
mod missing;
mod plan;
mod removal;

pub use dump::{dump, dump_in_parts};
pub use listing::{Listed, OWN_NAMES, Standing, listed};
pub use load::{How, LoadOptions, Loaded, NameTaken, Phase, Progress, load};
pub use missing::{Dangling, Missing};
pub use removal::{Removal, remove};

/// Designs that are being loaded to replace the ones of their names.
const REVISIONS: &str = "designs/revisions";

/// Relations of the IFC schema by which something has something else: the type, which parameter names the owners, and
/// which one what they have.
pub const RELATIONS: [(&str, usize, usize); 4] = [
    ("IFCRELAGGREGATES", 4, 5),
    ("IFCRELDEFINESBYPROPERTIES", 4, 5),
    ("IFCRELDEFINESBYTYPE", 4, 5),
    ("IFCRELASSOCIATESMATERIAL", 4, 5),
];

/// The types of the elements that [`crate::Design::elements`] lists.
const ELEMENTS: [&str; 2] = ["IFCWINDOW", "IFCDOOR"];
