//! The reports of a command that follows a site, on standard error.

use crate::{Error, Result};
use files::MemberService;
use net::UpstreamState;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a command that follows a site waits for a first revision before it says that it is ready without one.
pub(super) const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// How often it looks for changes to report.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reports on standard error, for as long as the member runs: its first line of standard output may be seconds away.
pub(super) fn report(member: &Arc<MemberService>, is_json: bool) -> Result {
    let member = Arc::downgrade(member);
    let run = move || {
        let (mut is_reached, mut served, mut known) = (None, None, None);
        while let Some(member) = member.upgrade() {
            let (upstream, revision, site) = (member.upstream(), member.revision(), member.site().to_string());
            let trouble = member.trouble();
            drop(member);
            let (is_now, why) = match upstream {
                UpstreamState::Connecting => (is_reached, None),
                UpstreamState::Up(_) => (Some(true), None),
                UpstreamState::Down(why) | UpstreamState::Over(why) => (Some(false), Some(why.to_string())),
            };
            if is_now != is_reached {
                is_reached = is_now;
                let (json, text) = match why {
                    None => (json!({"store": "reached"}), "the store is reached".to_owned()),
                    Some(why) => (json!({"store": "lost", "why": why}), format!("the store is not reached: {why}")),
                };
                log(is_json, &json, &text);
            }
            if revision != served {
                served = revision;
                log(is_json, &json!({"site": site, "revision": revision}), &name(&site, revision));
            }
            if trouble != known {
                if let Some(why) = &trouble {
                    log(is_json, &json!({"site": site, "trouble": why}), why);
                }
                known = trouble;
            }
            thread::sleep(LOOK_EVERY);
        }
    };
    thread::Builder::new().name("report".to_owned()).spawn(run).map(drop).map_err(Error::from)
}

/// Writes a line on standard error. A reader that has hung up stops no server.
pub(super) fn log(is_json: bool, json: &Value, text: &str) {
    let mut stderr = io::stderr();
    let _ = if is_json { writeln!(stderr, "{json}") } else { writeln!(stderr, "{text}") };
}

pub(super) fn name(site: &str, revision: Option<u64>) -> String {
    revision.map_or_else(|| format!("{site} (no revision yet)"), |revision| format!("{site}@{revision}"))
}
