//! Designs in a store: what `thorp load` makes of a file of ISO 10303-21 (IFC, STEP), one object for each entity.
//!
//! ```text
//!   "designs" --> Design --> entities: number -> Object      Object: the entity, its references as links,
//!                   |                                                and the relations that say what it has
//!                   |--> elements: the windows and doors
//!                   `--> extras, sections: what only some files have
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `design` | how a design is stored, and how applications read it |
//! | `value`, `extra` | the content of a file: entities and their values; anchors, references, signatures |
//! | `text`, `strings`, `pages` | texts, and the encodings of their characters |
//! | `write` | entities as the text of a file |
//! | `step` | the statements of a file, with feature `files` |
//! | `files` | designs from files and back, with feature `files` |

mod design;
mod extra;
#[cfg(feature = "files")]
pub mod files;
mod pages;
#[cfg(feature = "files")]
pub mod step;
mod strings;
mod text;
mod value;
mod write;

pub use design::{DESIGNS, Design, Link, Object, State};
pub use extra::Extra;
pub use strings::Place;
pub use text::Text;
pub use value::{Entity, Part, Value};
pub use write::{write_entity, write_extra, write_header};
