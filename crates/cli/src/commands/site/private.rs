//! `publish --path`: asks the mount that a path is in to publish its private changes, to drop or to list them.

use crate::Result;
use crate::cli::PublishArgs;
use crate::error::Error;
use crate::output::{self, Output};
use crate::stopper::Interrupt;
use files::{Difference, PrivateRequest, PrivateState};
use serde_json::json;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The file of a mount that takes requests.
const REQUESTS: &str = ".thorp/publish";

/// How often the state of a request is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The bytes of a state that are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// `thorp publish --path`.
pub(super) fn publish(path: &Path, args: &PublishArgs, output: &mut Output) -> Result {
    let (requests, below) = find(path)?;
    let request = if args.discard {
        PrivateRequest::Discard
    } else if args.dry_run {
        PrivateRequest::List
    } else {
        PrivateRequest::Publish { note: args.note.clone(), wait: args.wait, overwrite: args.overwrite }
    };
    let failed = |error: io::Error| Error::from(format!("{}: {error}", requests.display()));
    let file = OpenOptions::new().read(true).write(true).open(&requests).map_err(failed)?;
    let mut message = serde_json::to_vec(&request)?;
    message.push(b'\n');
    message.extend_from_slice(below.as_os_str().as_bytes());
    (&file).write_all(&message).map_err(failed)?;
    let interrupt = Interrupt::watch()?;
    let bar = output::spinner("publish (bytes)");
    let (site, revision, changes, listed) = loop {
        match read(&file).map_err(failed)? {
            PrivateState::Running { bytes } => bar.set_position(bytes),
            PrivateState::Done { site, revision, changes, listed } => break (site, revision, changes, listed),
            PrivateState::Failed { error, .. } => return Err(error.into()),
        }
        if interrupt.has_come() {
            let left = "list what is still private with --dry-run";
            return Err(format!("interrupted, perhaps after the store had the changes: {left}").into());
        }
        thread::sleep(LOOK_EVERY);
    };
    bar.finish_and_clear();
    if args.dry_run {
        return listed.iter().try_for_each(|(sign, path)| super::print_difference(path, difference(*sign), output));
    }
    let json = json!({"site": site, "revision": revision, "changes": changes, "discarded": args.discard});
    let text = match revision {
        Some(revision) => format!("{site}@{revision}: {changes} private changes published"),
        None if args.discard => format!("{site}: {changes} private changes dropped"),
        None if fs::symlink_metadata(path).is_err() => {
            format!("{site}: there is nothing at {}, and nothing was removed there", path.display())
        }
        None => format!("{site}: nothing has changed at {}", path.display()),
    };
    output.line(&json, text)
}

/// Finds the mount that a path is in, which need not be there any longer: its file for requests, and the path in it.
fn find(path: &Path) -> Result<(PathBuf, PathBuf)> {
    let whole = absolute(path)?;
    for above in whole.ancestors() {
        let requests = above.join(REQUESTS);
        if fs::symlink_metadata(&requests).is_ok() {
            let below = whole.strip_prefix(above).unwrap_or(Path::new("")).to_owned();
            return Ok((requests, below));
        }
    }
    let why = "is in no mount with private changes: `thorp mount --write --private` makes one";
    Err(format!("{} {why}", path.display()).into())
}

/// The path without links above its last name, of which the last ones may be missing.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let Some((above, name)) = path.parent().zip(path.file_name()) else { return Ok(path) };
    let mut missing: Vec<&OsStr> = vec![name];
    for above in above.ancestors() {
        match fs::canonicalize(above) {
            Ok(whole) => return Ok(missing.iter().rev().fold(whole, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.extend(above.file_name()),
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}

/// The state of a request.
fn read(file: &File) -> io::Result<PrivateState> {
    let (mut state, mut part) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        match file.read_at(&mut part, state.len() as u64)? {
            0 => return Ok(serde_json::from_slice(&state)?),
            length => state.extend_from_slice(&part[..length]),
        }
    }
}

fn difference(sign: char) -> Difference {
    match sign {
        '+' => Difference::Added,
        '-' => Difference::Removed,
        '!' => Difference::Conflict,
        _ => Difference::Changed,
    }
}
