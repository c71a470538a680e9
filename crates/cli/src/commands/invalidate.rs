//! `thorp invalidate`: tells a proxy what has changed.

use crate::Result;
use crate::cli::InvalidateArgs;
use crate::error::usage;
use crate::operators::token;
use crate::output::Output;
use proxy::Changes;
use serde_json::Value;

pub(super) fn run(args: &InvalidateArgs, output: &mut Output) -> Result {
    if args.dependencies.is_empty() && args.urls.is_empty() && !args.all {
        return Err(usage("say what has changed: names of dependencies, --url or --all"));
    }
    let (dependencies, urls) = (args.dependencies.clone(), args.urls.clone());
    let changes = Changes { dependencies, urls, all: args.all, soft: args.soft };
    let token = args.proxy.token_file.as_deref().map(token).transpose()?;
    let said = proxy::invalidate(&args.proxy.admin.to_string(), token.as_deref(), &changes)?;
    output.line(&said, text(&said, args.soft))
}

/// The outcome for a person. A name that nothing is stored for is no error: something may be stored elsewhere, or was
/// until a moment ago. But it may be a wrong name, so it is told.
fn text(said: &Value, is_soft: bool) -> String {
    let dependents = said["dependents"].as_u64().filter(|_| said["dependencies"] != 0);
    let dependents = dependents.map(|count| format!("stored responses that depend on them: {count}, "));
    let (done, count) = if is_soft { ("to be validated", &said["lapsed"]) } else { ("removed", &said["removed"]) };
    let mut lines = vec![format!(
        "invalidated (dependencies: {}, {}responses {done} by URL: {count})",
        said["dependencies"],
        dependents.unwrap_or_default()
    )];
    for name in names(&said["without_dependents"]) {
        lines.push(format!("no response that is stored here depends on '{name}'"));
        if name.starts_with('/') || name.starts_with("http://") || name.starts_with("https://") {
            let url = if name.starts_with('/') { format!("http://HOST{name}") } else { name.to_owned() };
            lines.push(format!("  it was taken for the name of a dependency: what is stored for a URL is --url {url}"));
        }
    }
    lines.extend(names(&said["urls_without_responses"]).map(|url| format!("nothing was stored here for {url}")));
    if said["has_others"] == true && lines.len() > 1 {
        lines.push("other caches have let go of it, too: how much that was is not known here".to_owned());
    }
    lines.join("\n")
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
