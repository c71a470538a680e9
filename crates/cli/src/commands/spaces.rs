//! `thorp spaces`: the spaces of a store.

use crate::Result;
use crate::cli::SpacesArgs;
use crate::output::Output;
use serde_json::json;

pub(super) fn run(args: &SpacesArgs, output: &mut Output) -> Result {
    let spaces = args.store.open()?.spaces()?;
    let width = spaces.iter().map(|space| space.name.len()).max().unwrap_or(0);
    spaces.iter().try_for_each(|space| {
        let (name, number) = (&space.name, space.number);
        output.line(&json!({"name": name, "number": number}), format_args!("{name:<width$}  {number}"))
    })
}
