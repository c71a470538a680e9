//! `thorp group`: the redirector of a group, from its start to its close.

use crate::cli::GroupArgs;
use crate::operators::{Operators, and_operators, of_host};
use crate::output::Output;
use crate::stopper::{close_on_signal, close_with_stdin};
use crate::{Error, Result, descriptors};
use files::SiteRelay;
use files::tables::RELAY;
use machine::RoleId;
use net::ConnectError::Refused;
use net::{
    Host, HostEnd, ListenConfig, Listener, Machines, Runtime, Shared, UpstreamConfig, UpstreamState, parse_addresses,
};
use ops::Service;
use redirector::{Config, Duty, Redirector, Stats, Status};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use types::ClientId;
use types::GoodbyeReason::Superseded;
use types::limits::GROUP_NAME_BYTES_MAX;

/// How often the group's status is looked at: changes are printed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(args: &GroupArgs, output: &mut Output) -> Result {
    let bytes = args.name.len();
    if !(1..=GROUP_NAME_BYTES_MAX).contains(&bytes) {
        return Err(format!("a group's name has 1 to {GROUP_NAME_BYTES_MAX} bytes, and --name has {bytes}").into());
    }
    let store = UpstreamConfig::parse(messages::CLIENT, &args.store)?;
    let sessions_max = descriptors::sessions_max(0)?;
    let listen =
        ListenConfig { insecure: args.insecure, sessions_max, ..ListenConfig::new(messages::SERVER, args.listen) };
    let listener = Listener::bind(listen)?;
    let (listening, operators) = (listener.address(), Operators::listen(&args.operators)?);
    let config = Config {
        group: args.name.clone(),
        address: advertised(args, listening)?,
        store: store.addresses.clone(),
        duty: if args.eligible { Duty::StandBy } else { Duty::Lead },
        cache_bytes_limit: args.stand_by_cache,
        help_within: Duration::from_millis(args.help_within.into()),
        ..Config::default()
    };
    let (runtime, address) = (Runtime::start_relay()?, config.address.clone());
    // The standard library's hasher is the nearest randomness: each is keyed again.
    let redirector = Redirector::new(config, ClientId(RandomState::new().hash_one(())));
    let mut machines = Machines::new();
    let (role, redirector) = machines.add(redirector);
    let host = Host::start(machines, &runtime);
    host.connect(role, store);
    let relay = SiteRelay::start(&args.store, args.site_cache)?;
    host.listen_with(role, listener, vec![relay.beside(sessions_max)])?;
    close_on_signal(&host)?;
    let admin = operators.address();
    let _operators = operators.serve(service(&host, role))?;
    if args.until_stdin_closes {
        close_with_stdin(&host);
    }
    say_ready(args, (listening, admin), &address, output)?;
    let stats = watch(&host, role, &redirector, output)?;
    say_closed(&args.name, host.tally().sessions.saturating_sub(stats.upstream_sessions), &stats, output)
}

/// The redirector, as its operators see it. A standby, which the store refuses in favor of the leader, is healthy.
fn service(host: &Arc<Host>, role: RoleId) -> Arc<dyn Service> {
    let upstream = Arc::downgrade(host);
    let troubles = move || match upstream.upgrade().map(|host| host.server_state(role)) {
        None
        | Some(
            UpstreamState::Connecting | UpstreamState::Up(_) | UpstreamState::Down(Refused { reason: Superseded, .. }),
        ) => Vec::new(),
        Some(UpstreamState::Down(why) | UpstreamState::Over(why)) => vec![format!("the store is not reached: {why}")],
    };
    of_host(host, &[redirector::tables::TABLES, &[RELAY.described()]], troubles)
}

/// Where members are told that they reach the redirector.
fn advertised(args: &GroupArgs, listening: SocketAddr) -> Result<String> {
    match &args.advertise {
        None if listening.ip().is_unspecified() => {
            let text = "is not an address that members can reach: say with --advertise which one they are to be told";
            Err(format!("{listening} {text}").into())
        }
        None => Ok(listening.to_string()),
        Some(advertise) => match &parse_addresses(advertise)?[..] {
            [address] => Ok(address.clone()),
            _ => Err(format!("'{advertise}' is more than one address: members are told one").into()),
        },
    }
}

/// How the group stands, as far as it is said when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Begins,
    Reached,
    Leads(u64),
    StandsBy(String),
    Lost(String),
}

/// Returns what changes until the redirector is closed; gives what it has counted.
fn watch(host: &Host, role: RoleId, redirector: &Shared<Redirector>, output: &mut Output) -> Result<Stats> {
    let mut said = Standing::Begins;
    loop {
        let ended = host.wait_end_within(LOOK_EVERY);
        if let Some(HostEnd::Failed(why)) = ended {
            return Err(format!("{why}; what was committed is safe at the store: start it again").into());
        }
        let Some(status) = status(redirector) else { continue };
        if ended.is_some() {
            return Ok(status.stats);
        }
        if let Some(why) = status.over {
            return Err(format!("the store wants no more of this redirector: {why}").into());
        }
        let standing = standing(&said, &status, host.server_state(role));
        if standing != said {
            standing.say(&status.group, output)?;
            said = standing;
        }
    }
}

/// Nothing if the host has failed in the meantime.
fn status(redirector: &Shared<Redirector>) -> Option<Status> {
    let hosted = redirector.lock().unwrap_or_else(PoisonError::into_inner);
    (!hosted.is_over()).then(|| hosted.look().status())
}

fn standing(said: &Standing, status: &Status, upstream: UpstreamState) -> Standing {
    match (status.is_live, status.epoch, &status.leader, upstream) {
        (true, Some(epoch), ..) => Standing::Leads(epoch),
        (true, None, Some(leader), _)
        | (false, None, Some(leader), UpstreamState::Down(Refused { reason: Superseded, .. })) => {
            Standing::StandsBy(leader.address.clone())
        }
        (true, None, None, _) => Standing::Reached,
        (false, _, _, UpstreamState::Down(why) | UpstreamState::Over(why)) => Standing::lost(said, &why.to_string()),
        (false, ..) => said.clone(),
    }
}

impl Standing {
    /// Nobody wants to know in how many ways a store that is gone cannot be reached.
    fn lost(said: &Self, why: &str) -> Self {
        if let Self::Lost(_) = said { said.clone() } else { Self::Lost(why.into()) }
    }

    fn say(&self, group: &str, output: &mut Output) -> Result {
        let (json, text) = match self {
            Self::Begins => return Ok(()),
            Self::Reached => (json!({"store": "reached"}), "the store is reached".into()),
            Self::Leads(epoch) => (
                json!({"store": "reached", "leads": group, "epoch": epoch}),
                format!("the store is reached; leads group '{group}' in epoch {epoch}"),
            ),
            Self::StandsBy(leader) => (
                json!({"store": "reached", "leader": leader}),
                format!("group '{group}' is led by the redirector at {leader}; this one is a standby"),
            ),
            Self::Lost(why) => (json!({"store": "lost", "why": why}), format!("the store is not reached: {why}")),
        };
        output.line(&json, text)?;
        output.flush()
    }
}

fn say_ready(
    args: &GroupArgs,
    (listening, admin): (SocketAddr, Option<SocketAddr>),
    address: &str,
    output: &mut Output,
) -> Result {
    let json =
        json!({"listen": listening, "admin": admin, "group": args.name, "address": address, "store": args.store});
    let and = and_operators(admin);
    let text = format!("ready: group '{}' on {listening}, for the store at {}{and}", args.name, args.store);
    output.line(&json, text)?;
    output.flush().map_err(|error| Error::from(format!("cannot say that the redirector is ready: {error}")))
}

fn say_closed(group: &str, sessions: u64, stats: &Stats, output: &mut Output) -> Result {
    let Stats { wanted, from_standby, from_peers, from_store, commits, updates, invalidations, .. } = stats;
    let json = json!({
        "closed": group,
        "sessions": sessions,
        "wanted": wanted,
        "from_standby": from_standby,
        "from_peers": from_peers,
        "from_store": from_store,
        "commits": commits,
        "updates": updates,
        "invalidations": invalidations,
    });
    let text = format!(
        "closed group '{group}' (sessions: {sessions}, pages wanted: {wanted}, from members: {from_peers}, from the \
         standby cache: {from_standby}, from the store: {from_store}, commits: {commits})"
    );
    output.line(&json, text)
}
