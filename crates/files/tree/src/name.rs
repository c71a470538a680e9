//! Names in a directory, and paths of them: any bytes that a file system of Unix can hold.

use crate::limits::NAME_BYTES_MAX;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A name in a directory: 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

/// The reason why bytes cannot be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// There are no bytes.
    Empty,
    /// There are more than 255 bytes.
    TooLong,
    /// The name is `.` or `..`, which climb.
    Dots,
    /// A byte is `/` or NUL.
    Separator,
}

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// The reason why the bytes cannot be a name.
    pub fn new(bytes: &[u8]) -> Result<Self, BadName> {
        match bytes {
            [] => Err(BadName::Empty),
            b"." | b".." => Err(BadName::Dots),
            _ if bytes.len() > NAME_BYTES_MAX => Err(BadName::TooLong),
            _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(BadName::Separator),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(f, &self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a name is empty",
            Self::TooLong => "a name has more than 255 bytes",
            Self::Dots => "a name is '.' or '..', which lead out of the site",
            Self::Separator => "a name has a '/' or a NUL in it",
        })
    }
}

/// A path from the root of a tree: names from above, or none for the root itself.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Name>);

/// The reason why text cannot be a path, with the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    part: String,
    reason: BadName,
}

impl Path {
    /// The root of a tree.
    pub const ROOT: Self = Self(Vec::new());

    /// Parses names between slashes. Leading, trailing and double slashes make no difference.
    ///
    /// # Errors
    /// The first part that cannot be a name.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let name = |part: &[u8]| {
            let error = |reason| PathError { part: String::from_utf8_lossy(part).into_owned(), reason };
            Name::new(part).map_err(error)
        };
        parts.map(name).collect::<Result<_, _>>().map(Self)
    }

    /// The names from above.
    pub fn names(&self) -> &[Name] {
        &self.0
    }

    /// Appends a name.
    pub fn push(&mut self, name: Name) {
        self.0.push(name);
    }

    /// Removes the last name and returns it; none at the root.
    pub fn pop(&mut self) -> Option<Name> {
        self.0.pop()
    }

    /// The path of a name below this one.
    pub fn join(&self, name: &Name) -> Self {
        let mut path = self.clone();
        path.push(name.clone());
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            write_bytes(f, name.as_bytes())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' cannot be in a path of a site: {}", self.part, self.reason)
    }
}

impl core::error::Error for PathError {}

/// Writes a name for people: control characters and bytes outside of UTF-8 as `\xNN`.
fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for part in bytes.utf8_chunks() {
        for char in part.valid().chars() {
            if char.is_control() { write!(f, "{}", char.escape_default())? } else { write!(f, "{char}")? }
        }
        part.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_that_climb_or_do_not_fit_are_refused() {
        for (bytes, reason) in [
            (&b""[..], BadName::Empty),
            (b".", BadName::Dots),
            (b"..", BadName::Dots),
            (b"a/b", BadName::Separator),
            (b"a\0", BadName::Separator),
            (&[b'a'; 256], BadName::TooLong),
        ] {
            assert_eq!(Name::new(bytes), Err(reason));
        }
        assert!(Name::new(&[b'a'; 255]).is_ok() && Name::new(b"...").is_ok() && Name::new(b"\xff").is_ok());
    }

    #[test]
    fn paths_are_names_between_slashes() {
        let path = Path::parse(b"//a/b c/\xff\n/").unwrap();
        assert_eq!((path.names().len(), path.to_string()), (3, "a/b c/\\xff\\n".into()));
        assert_eq!(Path::parse(b"/").unwrap(), Path::ROOT);
        assert_eq!(Path::parse(b"a/../b").unwrap_err().reason, BadName::Dots);
    }
}
