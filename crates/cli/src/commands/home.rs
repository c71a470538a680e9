//! `thorp home`: a home that the proxies of this machine share, from its start to its stop.

use crate::Result;
use crate::cli::HomeArgs;
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use coherence::{HomeServer, SiteConfig};
use net::{HostEnd, Runtime};
use serde_json::json;

pub(super) fn run(args: &HomeArgs, output: &mut Output) -> Result {
    let config = SiteConfig {
        hub: args.hub.clone(),
        listen: args.hub_listen,
        insecure: args.insecure,
        sources: args.sources.clone(),
        responses_max: args.responses,
        ..SiteConfig::default()
    };
    let home = HomeServer::start(&config, &args.socket, &Runtime::start()?)?;
    when_told(home.stopper())?;
    if args.until_stdin_closes {
        when_stdin_closes(home.stopper());
    }
    let (socket, hub) = (args.socket.display(), home.hub_address());
    let at = hub.map(|address| format!(", with a hub on {address}")).unwrap_or_default();
    let json = json!({"socket": args.socket, "hub_listen": hub});
    output.line(&json, format_args!("ready: home at {socket}{at}"))?;
    output.flush()?;
    if let HostEnd::Failed(why) = home.host().wait_end() {
        return Err(format!("{why}; start it again: its proxies come to it by themselves").into());
    }
    let refused = home.host().tally().refusals;
    output.line(&json!({"stopped": "home", "refused_sessions": refused}), "stopped")
}
