//! Where the small files beside a home are: in its own directory, or in another one that its owner has named. A raw
//! file whose files are elsewhere says so by one of its own (`NAME.beside`), for whoever opens it without that name.
//! Beside a device nothing stays.
//!
//! ```text
//!   thorp volume beside
//!   format 1
//!   dir /var/lib/volumes
//!   crc32c 89abcdef
//! ```

use super::error::HomeError;
use super::ownership::Ownership;
use crate::marker::Kind;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use vfs::{Directory, Doing, FileError, Files};

const KIND: Kind = Kind { title: "thorp volume beside", format: 1, fields: &["dir"] };

/// The ends of the names of the files beside a home that are considered those of a new one; checksums are not.
const ENDS: [&str; 4] = ["thorp", "mark", "journal", "beside"];

fn name_of(home: &str) -> String {
    format!("{home}.beside")
}

/// The directory of the files beside the home at this path, which has no links in it; `named` is the one that the user
/// named.
pub(crate) fn beside(path: &Path, named: Option<&Path>) -> Result<PathBuf, HomeError> {
    let open = |dir: &Path| dir.canonicalize().doing("open", || dir.to_owned());
    let named = named.map(open).transpose()?;
    if is_device(path) {
        return named.ok_or_else(|| HomeError::NoBeside(path.to_owned()));
    }
    let (above, name) = split(path)?;
    let files = Directory::new(above);
    let standing = match KIND.read(&files, &name_of(&name))? {
        Some(values) => Some(open(Path::new(&values[0]))?),
        None => Ownership::read(&files, &format!("{name}.thorp"))?.map(|_| above.to_owned()),
    };
    match (standing, named) {
        (Some(standing), Some(named)) if standing != named => Err(HomeError::Beside(path.to_owned(), standing)),
        (Some(dir), _) | (None, Some(dir)) => Ok(dir),
        (None, None) => Ok(above.to_owned()),
    }
}

/// Leaves word at a home where the files beside it are.
pub(crate) fn leave_word(files: &dyn Files, home: &str, dir: &Path) -> Result<(), FileError> {
    let text = dir.to_str().filter(|text| !text.contains('\n')).ok_or(io::Error::from(ErrorKind::InvalidFilename));
    KIND.write(files, &name_of(home), &[text.doing("write down", || dir.to_owned())?.to_owned()])
}

/// Refuses a path for a new volume beside which there are files of an earlier one: they would be taken for its own.
///
/// # Errors
/// [`HomeError::Left`].
pub fn expect_alone(path: &Path) -> Result<(), HomeError> {
    let name = path.file_name().ok_or_else(|| HomeError::NoName(path.to_owned()))?;
    let beside = ENDS.map(|end| {
        let mut name = name.to_owned();
        name.push(".");
        name.push(end);
        path.with_file_name(name)
    });
    let left = beside.into_iter().find(|file| file.symlink_metadata().is_ok());
    left.map_or(Ok(()), |file| Err(HomeError::Left(file)))
}

/// The directory of a home and its name there.
pub(crate) fn split(path: &Path) -> Result<(&Path, String), HomeError> {
    let name = path.file_name().ok_or_else(|| HomeError::NoName(path.to_owned()))?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((above, name.to_string_lossy().into_owned()))
}

/// Whether a home is a device: then the files beside it need a directory of their own, as `/dev` forgets them.
pub(crate) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_beside_a_home_are_found_again() {
        let dir = std::env::temp_dir().join(format!("thorp-beside-{}", std::process::id()));
        let (homes, other, third) = (dir.join("homes"), dir.join("other"), dir.join("third"));
        for dir in [&homes, &other, &third] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let [homes, other, third] = [homes, other, third].map(|dir| dir.canonicalize().unwrap());
        let home = homes.join("disk");
        std::fs::write(&home, [0; 4096]).unwrap();
        assert_eq!(
            (beside(&home, None).unwrap(), beside(&home, Some(&other)).unwrap()),
            (homes.clone(), other.clone())
        );
        expect_alone(&home).unwrap();
        leave_word(&Directory::new(&homes), "disk", &other).unwrap();
        assert_eq!(
            (beside(&home, None).unwrap(), beside(&home, Some(&other)).unwrap()),
            (other.clone(), other.clone())
        );
        assert!(matches!(beside(&home, Some(&third)), Err(HomeError::Beside(_, at)) if at == other));
        assert!(matches!(expect_alone(&home), Err(HomeError::Left(_))));
        // The disk that they are on is not there.
        std::fs::remove_dir(&other).unwrap();
        assert!(beside(&home, None).is_err());
        // They are in the home's own directory.
        std::fs::remove_file(homes.join("disk.beside")).unwrap();
        let owner = Ownership { epoch: 1, cache: 1, is_dirty: true, place: "here".into(), ..Ownership::none(1) };
        owner.write(&Directory::new(&homes), "disk.thorp").unwrap();
        assert_eq!(beside(&home, None).unwrap(), homes);
        assert!(matches!(beside(&home, Some(&third)), Err(HomeError::Beside(_, at)) if at == homes));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
