//! `thorp invalidate`: tells a proxy what has changed.

use crate::Result;
use crate::cli::InvalidateArgs;
use crate::error::usage;
use crate::output::Output;
use proxy::Changes;
use std::path::Path;

pub(super) fn run(args: &InvalidateArgs, output: &mut Output) -> Result {
    if args.dependencies.is_empty() && args.urls.is_empty() && !args.all {
        return Err(usage("say what has changed: names of dependencies, --url or --all"));
    }
    let (dependencies, urls) = (args.dependencies.clone(), args.urls.clone());
    let changes = Changes { dependencies, urls, all: args.all, soft: args.soft };
    let token = args.proxy.token_file.as_deref().map(token).transpose()?;
    let said = proxy::invalidate(&args.proxy.admin.to_string(), token.as_deref(), &changes)?;
    let dependencies = &said["dependencies"];
    let (done, count) = if args.soft { ("to be validated", &said["lapsed"]) } else { ("removed", &said["removed"]) };
    output.line(&said, format_args!("invalidated (dependencies: {dependencies}, responses {done} by URL: {count})"))
}

/// The token in a file: its first line.
pub(super) fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_owned()),
        _ => Err(format!("{}: expected a token on the first line", file.display()).into()),
    }
}
