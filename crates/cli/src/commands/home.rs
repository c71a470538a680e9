//! `thorp home`: a home that proxies share, from its start to its stop.

use crate::Result;
use crate::cli::HomeArgs;
use crate::operators::{Operators, and_operators, of_host};
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use coherence::{HomeServer, ShareConfig, SiteConfig};
use net::{HostEnd, Runtime};
use serde_json::json;

pub(super) fn run(args: &HomeArgs, output: &mut Output) -> Result {
    let site = SiteConfig {
        hub: args.hub.clone(),
        listen: args.hub_listen,
        insecure: args.insecure,
        sources: args.sources.clone(),
        responses_max: args.responses,
        ..SiteConfig::default()
    };
    let config = ShareConfig { site, socket: args.socket.clone(), listen: args.listen, fabric: args.fabric.clone() };
    let operators = Operators::listen(&args.operators)?;
    let home = HomeServer::start(&config, &Runtime::start()?)?;
    when_told(home.stopper())?;
    if args.until_stdin_closes {
        when_stdin_closes(home.stopper());
    }
    let (listen, hub, admin) = (home.address(), home.hub_address(), operators.address());
    let updates = home.updates();
    let _operators = operators.serve(of_host(home.host(), &[homes::tables::TABLES], move || updates.troubles()))?;
    let at = args.socket.as_ref().map(|socket| format!(" at {}", socket.display())).unwrap_or_default();
    let on = listen.map(|address| format!(" on {address}")).unwrap_or_default();
    let with = hub.map(|address| format!(", with a hub on {address}")).unwrap_or_default();
    let json = json!({"socket": args.socket, "listen": listen, "hub_listen": hub, "admin": admin});
    output.line(&json, format_args!("ready: home{at}{on}{with}{}", and_operators(admin)))?;
    output.flush()?;
    if let HostEnd::Failed(why) = home.wait_end()? {
        return Err(format!("{why}; start it again: its proxies come to it by themselves").into());
    }
    let refused = home.refusals();
    output.line(&json!({"stopped": "home", "refused_sessions": refused}), "stopped")
}
