//! Hits of `thorp proxy`, which proves each of them current, beside the plain hits of caches that everybody knows.
//!
//! All have the same origin, the same paths, the same client and as many threads. The client has one half of the
//! machine's processors and the server that it asks the other: they do not wait for each other's time slices. The
//! servers are asked in turns, whose order changes from round to round, and ratios are medians of the rounds.
//!
//! The client is not what is measured: it asks the origin itself, too, which does nothing but answer, and says how
//! busy it was.

mod client;
mod cores;
mod entries;
mod origin;

use crate::machine::is_steady;
use crate::sample::median;
use crate::{Line, Place, Result};
pub(crate) use entries::measure as measure_entries;

pub(crate) use client::{Client, Turn};
pub(crate) use cores::Cores;
use fixtures::{CacheSettings, Process, Program, WebCache};
use origin::Origin;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The bodies that are asked for.
const SIZES: [usize; 2] = [1024, 16 * 1024];

/// Responses of each size.
const PATHS: usize = 1000;

/// Connections of the client.
const CONNECTIONS: usize = 64;

/// Each server's turns, and how long one lasts.
const ROUNDS: usize = 7;
const TURN: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

/// The must of the web front end: hits beside a rival's, and the 99th percentile of latencies beside its.
const HITS_MIN: f64 = 1.0;
const P99_MAX: f64 = 1.0;

/// Which rivals are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// nginx with `proxy_cache`.
    pub nginx: bool,
    /// Varnish.
    pub varnish: bool,
}

impl Beside {
    /// All of them.
    pub const ALL: Self = Self { nginx: true, varnish: true };

    fn rivals(self) -> impl Iterator<Item = WebCache> {
        [(self.nginx, WebCache::Nginx), (self.varnish, WebCache::Varnish)]
            .into_iter()
            .filter_map(|(is_in, it)| is_in.then_some(it))
    }
}

/// A cache before the origin.
struct Server {
    name: &'static str,
    address: SocketAddr,
    _process: Process,
}

impl Server {
    fn rival(rival: WebCache, dir: &Path, origin: &Origin, threads: usize) -> Result<Option<Self>> {
        // nginx as Debian sets it up, and as its makers would have it run: it keeps its connections, and keeps
        // the files of its cache open.
        let nginx_http = "sendfile on; tcp_nopush on; keepalive_requests 1000000000;
            open_file_cache max=10000 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;";
        let settings = CacheSettings { threads, nginx_http, nginx_location: "", varnish: "" };
        let started = rival.start(dir, origin.address(), settings)?;
        Ok(started.map(|(process, address)| Self { name: rival.name(), address, _process: process }))
    }
}

/// `thorp proxy` before an origin, with these options, and else as it is without.
fn start_proxy(program: &Path, origin: &Origin, threads: usize, options: &[&str]) -> Result<Process> {
    let (origin, threads) = (format!("http://{}", origin.address()), threads.to_string());
    Program::from(program).proxy(&[&["--threads", &threads, "--origin", &origin], options].concat())
}

/// Measures beside these rivals; gives a line for each rival and size, and one for a rival that is not installed.
pub(crate) fn measure(
    place: &Place,
    beside: Beside,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let cores = Cores::halves()?;
    let origin = cores.run_on_servers(Origin::start)?;
    let proxy = cores.run_on_servers(|| start_proxy(&place.program, &origin, cores.each(), &[]))?;
    let mut servers = vec![Server { name: "thorp", address: proxy.address(), _process: proxy }];
    for rival in beside.rivals() {
        match cores.run_on_servers(|| Server::rival(rival, &place.dir, &origin, cores.each()))? {
            Some(server) => servers.push(server),
            None => found(Line::new("web").word("beside", rival.name()).word("skipped", "it is not installed"))?,
        }
    }
    for bytes in SIZES {
        let paths: Vec<String> = (0..PATHS).map(|number| format!("/{bytes}/{number}")).collect();
        let client = Client { connections: CONNECTIONS, threads: cores.each(), cores: &cores, body_bytes: bytes };
        progress(&format!("responses of {bytes} bytes: the client itself"));
        let bare = client.turn(origin.address(), &paths, TURN)?;
        for server in &servers {
            client.fill(server.address, &paths)?;
            client.turn(server.address, &paths, WARM_UP)?;
        }
        let mut turns: Vec<Vec<Turn>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 0..ROUNDS {
            progress(&format!("responses of {bytes} bytes: round {} of {ROUNDS}", round + 1));
            for place in 0..servers.len() {
                let index = (round + place) % servers.len();
                let asked_before = origin.asked();
                turns[index].push(client.turn(servers[index].address, &paths, TURN)?);
                if origin.asked() != asked_before {
                    return Err(format!("{} has asked the origin: these are not hits", servers[index].name).into());
                }
            }
        }
        for (server, theirs) in servers.iter().zip(&turns).skip(1) {
            found(line(server.name, bytes, &turns[0], theirs, &bare))?;
        }
    }
    Ok(())
}

fn line(beside: &str, bytes: usize, ours: &[Turn], theirs: &[Turn], bare: &Turn) -> Line {
    let all = |turns: &[Turn], figure: fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
    let ratio = |figure: fn(&Turn) -> f64| {
        median(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
    };
    let (hits, p99) = (ratio(Turn::hits_per_s), ratio(Turn::p99_ms));
    let baseline: Vec<f64> = theirs.iter().map(Turn::hits_per_s).collect();
    let (met_hits, met_p99) = (hits >= HITS_MIN, p99 <= P99_MAX);
    Line::new("web")
        .word("beside", beside)
        .count("body_bytes", bytes as u64)
        .count("connections", CONNECTIONS as u64)
        .figure("hits_per_s", all(ours, Turn::hits_per_s))
        .figure("their_hits_per_s", all(theirs, Turn::hits_per_s))
        .figure("hit_ms_p50", all(ours, Turn::p50_ms))
        .figure("their_hit_ms_p50", all(theirs, Turn::p50_ms))
        .figure("hit_ms_p99", all(ours, Turn::p99_ms))
        .figure("their_hit_ms_p99", all(theirs, Turn::p99_ms))
        .figure("hits_over_theirs", hits)
        .figure("p99_over_theirs", p99)
        .figure("client_hits_per_s", bare.hits_per_s())
        .figure("client_busy", all(ours, Turn::busy))
        .flag("met_hits", met_hits && is_steady(&baseline))
        .flag("met_p99", met_p99 && is_steady(&baseline))
        .met(met_hits && met_p99, &baseline)
}
