//! `thorp verify`: the helper for servers that keep a cache of their own, from its start to its stop.

use crate::cli::VerifyArgs;
use crate::operators::{Operators, and_operators};
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result, descriptors};
use coherence::SiteConfig;
use serde_json::json;
use std::collections::BTreeMap;
use types::limits::TABLE_SLOTS_MAX;
use verify::limits::{CONNECTIONS_MAX, KINDS_PER_VERSION_MAX};
use verify::{Config, Tally, Verify};

pub(super) fn run(args: &VerifyArgs, output: &mut Output) -> Result {
    // A home of its own has room for everything that can be stored under the keys, which is rarely more than one
    // response each.
    let slots = args.responses.saturating_mul(KINDS_PER_VERSION_MAX as u32).min(TABLE_SLOTS_MAX);
    let site = SiteConfig {
        hub: args.hub.clone(),
        listen: args.hub_listen,
        insecure: args.insecure,
        sources: args.sources.clone(),
        responses_max: slots,
        ..SiteConfig::default()
    };
    let operators = Operators::listen(&args.operators)?;
    let mut verify = Verify::start(&Config {
        socket: args.socket.clone(),
        listen: args.listen,
        home: args.home.clone(),
        site,
        keys_max: args.responses as usize,
        connections_max: descriptors::connections_max(1)?.min(CONNECTIONS_MAX),
    })?;
    let stopper = verify.stopper();
    let stop = move || stopper.stop();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    let (listen, hub, admin) = (verify.address(), verify.hub_address(), operators.address());
    let _operators = operators.serve(verify.observed())?;
    let json = json!({"socket": args.socket, "listen": listen, "hub_listen": hub, "admin": admin});
    let at = listen.map(|address| format!(" and {address}")).unwrap_or_default();
    let with = hub.map(|address| format!(", with a hub on {address}")).unwrap_or_default();
    let and = and_operators(admin);
    output.line(&json, format_args!("ready: helper at {}{at}{with}{and}", args.socket.display()))?;
    output.flush()?;
    verify.wait().map_err(|error| Error::from(format!("{error}; start it again")))?;
    say_stopped(&verify.tally(), output)
}

fn say_stopped(tally: &Tally, output: &mut Output) -> Result {
    let Tally { current, fill, away, stored, changes, .. } = tally;
    let declined: BTreeMap<_, _> = tally.declined.iter().copied().collect();
    let refused: BTreeMap<_, _> = tally.refused.iter().copied().collect();
    let json = json!({
        "stopped": "verify",
        "current": current,
        "fill": fill,
        "away": away,
        "stored": stored,
        "changes": changes,
        "declined": declined,
        "refused": refused,
    });
    let by_name = |what: &str, counts: &BTreeMap<&str, u64>| {
        counts.iter().map(|(name, count)| format!(", {what} as {name}: {count}")).collect::<Vec<_>>().concat()
    };
    let why = by_name("not stored", &declined) + &by_name("refused", &refused);
    let looks = current + fill + away;
    output.line(&json, format_args!("stopped (looks: {looks}, could be used: {current}, stored: {stored}{why})"))
}
