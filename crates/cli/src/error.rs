//! An error, as `main` prints it: one line that says what went wrong, and what to do.

use std::fmt;
use std::io::ErrorKind;

/// An error is a line for the user.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of a command.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

/// The command was called wrongly, in a way that shows only when its words are looked at together.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error of the command's user.
pub(crate) fn usage(text: impl Into<String>) -> Error {
    Box::new(Usage(text.into()))
}

/// Refuses an option that would have no effect.
pub(crate) fn only_for(option: &str, is_given: bool, what: &str) -> Result {
    if is_given { Err(usage(format!("{option} is only for {what}: leave it out"))) } else { Ok(()) }
}

/// The exit code of the process.
pub(crate) fn exit_code(error: &Error) -> u8 {
    if error.is::<Usage>() { 2 } else { 1 }
}

/// A reader of our output that hangs up has enough of it, as `head` does: no error.
pub(crate) fn is_closed_pipe(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}
