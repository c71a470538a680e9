//! The catalog: which spaces a store has, by name. It is one object, the first of a space that holds nothing else.
//!
//! ```text
//!   format u8 | space ...
//!     space    number u32 | bytes of the name u8 | name
//! ```
//! 1. Numbers ascend, and names differ. A space keeps both for as long as the store lives.
//! 2. The main space is not in it: every store has that one, also a store without a catalog.
//! 3. All of it is one slot: of two transactions that each add a space, one is refused and looks again.
//!
//! It comes from outside: any client of the store can write the slot.

use crate::{Error, Result};
use types::limits::{SPACE_NAME_BYTES_MAX, SPACES_MAX};
use types::{CATALOG_SPACE, MAIN_SPACE, ObjectId};

/// Where the catalog is.
pub(crate) const CATALOG: ObjectId = ObjectId::root(CATALOG_SPACE);

/// The name of the space that every store has.
pub const MAIN_SPACE_NAME: &str = "main";

/// The space in which the registry of volumes keeps the volumes.
pub const VOLUMES_SPACE: &str = "thorp.volumes";

/// The space in which it keeps the holders and hosts.
pub const MEMBERS_SPACE: &str = "thorp.members";

const FORMAT: u8 = 1;

/// A name space of pages within a store. Names of objects and maps are looked up in one space, and an object lies in
/// the space in which it was created, so what uses one space neither sees nor meets what uses another.
///
/// A space is a name space and no more. All spaces of a store share its log, its room, its count of updates and the
/// memory of its clients, and a client that reaches the store reaches all of them. A transaction may use several at
/// once: a reference leads to its object in whatever space that is. Each space is leased by itself
/// (`thorp serve --leased`), and a group has one lease for all spaces that are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Its number, the first part of the id of all its objects.
    pub number: u32,
    /// Its name.
    pub name: String,
}

impl Space {
    /// The space that every store has.
    pub(crate) fn main() -> Self {
        Self { number: MAIN_SPACE, name: MAIN_SPACE_NAME.to_owned() }
    }

    /// Whether the registry of volumes keeps its objects there, which have a form of their own.
    pub fn is_of_registry(&self) -> bool {
        is_of_registry(&self.name)
    }
}

fn is_of_registry(name: &str) -> bool {
    [VOLUMES_SPACE, MEMBERS_SPACE].contains(&name)
}

/// Refuses what is not a name of a space for an application: names that [`check_name`] refuses, and the registry's.
///
/// # Errors
/// [`Error::SpaceName`].
pub fn check_application_space(name: &str) -> Result<()> {
    check_name(name)?;
    if is_of_registry(name) { Err(Error::SpaceName(name.to_owned())) } else { Ok(()) }
}

/// Refuses what is not a name of a space. A name is a word wherever it may stand: on a command line, in an address, as
/// a file name. It begins with a letter, which tells it from a space's number.
///
/// # Errors
/// [`Error::SpaceName`].
pub fn check_name(name: &str) -> Result<()> {
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
    let goes_on = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_name = begins && goes_on && name.len() <= SPACE_NAME_BYTES_MAX;
    if is_name { Ok(()) } else { Err(Error::SpaceName(name.to_owned())) }
}

/// All spaces of a store but the main one, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    spaces: Vec<Space>,
}

impl Catalog {
    /// The number of the space of this name.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.spaces.iter().find(|space| space.name == name).map(|space| space.number)
    }

    /// Adds a space under a name that no other has, and gives its number: the lowest that is free.
    pub(crate) fn add(&mut self, name: &str) -> Result<u32> {
        if self.spaces.len() + 1 >= SPACES_MAX {
            return Err(Error::TooManySpaces);
        }
        let taken = self.spaces.iter().zip(MAIN_SPACE + 1..).take_while(|(space, number)| space.number == *number);
        let at = taken.count();
        let number = MAIN_SPACE + 1 + at as u32;
        self.spaces.insert(at, Space { number, name: name.to_owned() });
        Ok(number)
    }

    pub(crate) fn into_spaces(self) -> Vec<Space> {
        self.spaces
    }

    /// The slot's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for Space { number, name } in &self.spaces {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    /// The catalog in these bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`], with what this library would not have written; [`Error::Open`] for a later format.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (format, mut rest) = bytes.split_first().ok_or(damaged("the catalog of spaces is empty"))?;
        if *format != FORMAT {
            let text = format!(
                "the store's catalog of spaces is in format {format}, and this version reads format {FORMAT}: open the \
                 store with the version that wrote it"
            );
            return Err(Error::Open(text));
        }
        let mut catalog = Self::default();
        while !rest.is_empty() {
            let (space, behind) = parse(rest).ok_or(damaged("the catalog of spaces ends within a space"))?;
            catalog.accept(space)?;
            rest = behind;
        }
        Ok(catalog)
    }

    /// Takes in a space that follows the others.
    fn accept(&mut self, space: Space) -> Result<()> {
        let last = self.spaces.last().map_or(MAIN_SPACE, |last| last.number);
        if self.spaces.len() + 1 >= SPACES_MAX {
            return Err(damaged("the catalog of spaces has too many"));
        }
        if check_name(&space.name).is_err() {
            return Err(damaged("a name in the catalog of spaces is none"));
        }
        if space.name == MAIN_SPACE_NAME || self.find(&space.name).is_some() {
            return Err(damaged("two spaces in the catalog have one name"));
        }
        if space.number <= last || space.number == CATALOG_SPACE {
            return Err(damaged("a number in the catalog of spaces is not the space's own"));
        }
        self.spaces.push(space);
        Ok(())
    }
}

/// The first space in these bytes, and what is behind it.
fn parse(bytes: &[u8]) -> Option<(Space, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    // Bytes that are not UTF-8 become a name that no space can have.
    let name = String::from_utf8_lossy(name).into_owned();
    Some((Space { number: u32::from_le_bytes(*number), name }, rest))
}

/// The error of a damaged catalog.
pub(crate) fn damaged(what: &'static str) -> Error {
    Error::Damaged { object: CATALOG, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn catalog(spaces: &[(u32, &str)]) -> Catalog {
        let space = |&(number, name): &(u32, &str)| Space { number, name: name.into() };
        Catalog { spaces: spaces.iter().map(space).collect() }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let golden = [1, 1, 0, 0, 0, 5, b'p', b'l', b'a', b'n', b's', 0, 1, 0, 0, 1, b'x'];
        let catalog = catalog(&[(1, "plans"), (256, "x")]);
        assert_eq!(catalog.to_bytes(), golden);
        assert_eq!(Catalog::from_bytes(&golden).unwrap(), catalog);
    }

    #[test]
    fn the_spaces_of_the_registry_are_no_applications() {
        for name in [VOLUMES_SPACE, MEMBERS_SPACE] {
            check_name(name).unwrap();
            let error = check_application_space(name).unwrap_err();
            assert!(error.to_string().contains("registry of volumes"), "{error}");
        }
        check_application_space("thorp.docs").unwrap();
    }

    #[test]
    fn names() {
        let longest = "n".repeat(SPACE_NAME_BYTES_MAX);
        for name in ["main", "x", "Plans-2026_v1.2", &longest] {
            check_name(name).unwrap();
        }
        let too_long = "n".repeat(SPACE_NAME_BYTES_MAX + 1);
        for name in ["", "7", "-x", ".x", "_x", "a b", "a/b", "a\n", "pläne", "a\0", &too_long] {
            let error = check_name(name).unwrap_err();
            assert!(matches!(&error, Error::SpaceName(refused) if refused == name), "{error}");
        }
    }

    #[test]
    fn a_space_is_given_the_lowest_free_number() {
        let mut catalog = catalog(&[(1, "a"), (2, "b"), (4, "d"), (u32::MAX - 1, "z")]);
        assert_eq!(["c", "e", "f"].map(|name| catalog.add(name).unwrap()), [3, 5, 6]);
        assert_eq!(Catalog::from_bytes(&catalog.to_bytes()).unwrap(), catalog);
        assert_eq!((catalog.find("e"), catalog.find("E")), (Some(5), None));
    }

    #[test]
    fn a_store_has_so_many_spaces() {
        let mut catalog = Catalog::default();
        for number in 1..SPACES_MAX {
            let name = format!("{number:n>SPACE_NAME_BYTES_MAX$}");
            assert_eq!(catalog.add(&name).unwrap(), number as u32);
        }
        assert!(matches!(catalog.add("one-more"), Err(Error::TooManySpaces)));
        assert_eq!(Catalog::from_bytes(&catalog.to_bytes()).unwrap(), catalog);
    }

    #[test]
    fn a_page_that_is_no_catalog_is_refused_by_name() {
        let mut too_many = Catalog::default();
        too_many.spaces.extend((1..=SPACES_MAX as u32).map(|number| Space { number, name: format!("n{number}") }));
        let cases = [
            (vec![], "is empty"),
            (vec![1, 1, 0, 0], "ends within"),
            (vec![1, 1, 0, 0, 0, 2, b'x'], "ends within"),
            (catalog(&[(1, "a b")]).to_bytes(), "is none"),
            (vec![1, 1, 0, 0, 0, 2, b'x', 0xff], "is none"),
            (catalog(&[(1, "main")]).to_bytes(), "one name"),
            (catalog(&[(1, "a"), (2, "a")]).to_bytes(), "one name"),
            (catalog(&[(0, "a")]).to_bytes(), "not the space's own"),
            (catalog(&[(2, "a"), (2, "b")]).to_bytes(), "not the space's own"),
            (catalog(&[(2, "a"), (1, "b")]).to_bytes(), "not the space's own"),
            (catalog(&[(CATALOG_SPACE, "a")]).to_bytes(), "not the space's own"),
            (too_many.to_bytes(), "too many"),
        ];
        for (bytes, why) in cases {
            let error = Catalog::from_bytes(&bytes).unwrap_err();
            assert!(matches!(&error, Error::Damaged { object: CATALOG, what } if what.contains(why)), "{why}: {error}");
        }
        assert!(Catalog::from_bytes(&[2]).unwrap_err().to_string().contains("in format 2"));
    }

    proptest! {
        /// Any bytes are refused, or are the bytes of the one catalog that they are read as.
        #[test]
        fn any_bytes(mut bytes: Vec<u8>, is_of_format: bool) {
            if is_of_format {
                bytes.insert(0, FORMAT);
            }
            if let Ok(catalog) = Catalog::from_bytes(&bytes) {
                prop_assert_eq!(catalog.to_bytes(), bytes);
            }
        }
    }
}
