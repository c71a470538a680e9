//! The file that says which holder a folder is, and which of its lives.

use crate::marker::Kind;
use crate::place::Place;
use registry::Life;
use vfs::{FileError, Files};

const FIELDS: &[&str] = &["partition", "incarnation", "life", "next", "boot", "device", "directory", "lock"];
const MARKER: Kind = Kind { title: "thorp holder", format: 2, fields: FIELDS };
/// As earlier versions wrote it: nothing is known of its place, and any life comes after that one.
const MARKER_OF_BEFORE: Kind = Kind { title: "thorp holder", format: 1, fields: &["partition", "incarnation"] };
pub(super) const MARKER_NAME: &str = "thorp-holder";
/// The marker of a folder, as it says.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    pub(super) partition: u64,
    /// The last life that the registry has learned of, as far as is known here; the incarnation is 0 while the folder
    /// is being made.
    pub(super) life: Life,
    /// The one that is being begun.
    pub(super) next: Option<Life>,
    /// Where the folder was when that was so.
    pub(super) place: Place,
}

impl Marker {
    pub(super) fn read(files: &dyn Files) -> Result<Option<Self>, FileError> {
        let values = match MARKER.read(files, MARKER_NAME) {
            Ok(Some(values)) => values,
            Ok(None) => return Ok(None),
            Err(error) => match MARKER_OF_BEFORE.read(files, MARKER_NAME) {
                Ok(Some(values)) => values.into_iter().chain(["0", "0", "", "0", "0", "0"].map(String::from)).collect(),
                _ => return Err(error),
            },
        };
        let what = "a field has a value that was never written".to_owned();
        let marker = Self::from_values(&values);
        marker.map(Some).ok_or(FileError::Corrupt { file: files.path(MARKER_NAME), offset: 0, what })
    }

    fn from_values(values: &[String]) -> Option<Self> {
        let number = |at: usize| u64::from_str_radix(&values[at], 16).ok();
        let incarnation = u32::try_from(number(1)?).ok()?;
        let next = |number| Life { incarnation: incarnation.saturating_add(1), number };
        Some(Self {
            partition: number(0)?,
            life: Life { incarnation, number: number(2)? },
            next: Some(number(3)?).filter(|&it| it > 0).map(next),
            place: Place::from_values(&values[4..])?,
        })
    }

    pub(super) fn write(&self, files: &dyn Files) -> Result<(), FileError> {
        let Life { incarnation, number } = self.life;
        let next = self.next.map_or(0, |it| it.number);
        let numbers = [self.partition, u64::from(incarnation), number, next].map(|value| format!("{value:016x}"));
        let values: Vec<_> = numbers.into_iter().chain(self.place.values()).collect();
        MARKER.write(files, MARKER_NAME, &values)
    }
}
