//! Requests to a server that follows a site, over those to nginx with the same files, by the client of `bench web`.
//! Servers have turns, on half of the processors, and the client has the other half.

use super::directory::Directory;
use super::farm::{Farm, publish};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::sample::median;
use crate::web::{Client, Cores, Turn};
use crate::{Line, Place, Result};
use fixtures::{CacheSettings, WebCache, lasting_address};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The files of one size, and the least share of nginx's requests.
struct Size {
    bytes: usize,
    files: u64,
    over_nginx_min: f64,
}

const SIZES: [Size; 3] = [
    Size { bytes: 1 << 10, files: 1000, over_nginx_min: 1.0 },
    Size { bytes: 64 << 10, files: 200, over_nginx_min: 0.8 },
    Size { bytes: 10 << 20, files: 8, over_nginx_min: 0.8 },
];

/// Connections of the client.
const CONNECTIONS: usize = 64;

/// Each server's turns, and how long one lasts.
const ROUNDS: u64 = 7;
const TURN: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(300);

pub(super) fn measure(
    place: &Place,
    sizes: SiteSizes,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let (rounds, turn) = (sizes.rounds(ROUNDS), sizes.during(TURN));
    let cores = Cores::halves()?;
    for Size { bytes, files, over_nginx_min } in SIZES {
        let farm = Farm::start(place, &format!("hits-{bytes}"), &[])?;
        progress(&format!("files of {bytes} bytes"));
        let directory = Directory::flat(farm.path("www"), files.min(sizes.files), bytes)?;
        let revision = publish(&farm.sites()?, directory.path())?.revision.number;
        let member = cores.run_on_servers(|| farm.member("member", farm.address()))?;
        Watch::new([&member]).wait(revision)?;
        let nginx = cores.run_on_servers(|| nginx(&farm.path("nginx"), directory.path(), cores.each()))?;
        let Some((_process, nginx)) = nginx else {
            found(line("hits").word("beside", "nginx").word("skipped", "it is not installed"))?;
            return Ok(());
        };
        let paths: Vec<String> = (0..directory.files()).map(|file| format!("/{}", directory.name(file))).collect();
        let client = Client { connections: CONNECTIONS, threads: cores.each(), cores: &cores, body_bytes: bytes };
        let servers = [member.address(), nginx];
        for server in servers {
            client.turn(server, &paths, sizes.during(WARM_UP))?;
        }
        let mut turns: [Vec<Turn>; 2] = Default::default();
        for round in 0..rounds {
            progress(&format!("files of {bytes} bytes: round {} of {rounds}", round + 1));
            for place in 0..servers.len() {
                let index = (round as usize + place) % servers.len();
                turns[index].push(client.turn(servers[index], &paths, turn)?);
            }
        }
        found(line_of(bytes, over_nginx_min, &turns))?;
    }
    Ok(())
}

fn line_of(bytes: usize, over_nginx_min: f64, [ours, theirs]: &[Vec<Turn>; 2]) -> Line {
    let all = |turns: &[Turn], figure: fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
    let ratio = |(ours, theirs): (&Turn, &Turn)| ours.hits_per_s() / theirs.hits_per_s();
    let over_nginx = median(ours.iter().zip(theirs).map(ratio).collect());
    let baseline: Vec<f64> = theirs.iter().map(Turn::hits_per_s).collect();
    line("hits")
        .word("beside", "nginx")
        .count("body_bytes", bytes as u64)
        .count("connections", CONNECTIONS as u64)
        .figure("requests_per_s", all(ours, Turn::hits_per_s))
        .figure("their_requests_per_s", all(theirs, Turn::hits_per_s))
        .figure("ms_p99", all(ours, Turn::p99_ms))
        .figure("their_ms_p99", all(theirs, Turn::p99_ms))
        .figure("over_nginx", over_nginx)
        .figure("over_nginx_min", over_nginx_min)
        .figure("client_busy", all(ours, Turn::busy))
        .figure("client_busy_with_them", all(theirs, Turn::busy))
        .met(over_nginx >= over_nginx_min, &baseline)
}

/// nginx with the files of a directory, as its makers would have it run; `None` if it is not installed.
fn nginx(dir: &Path, root: &Path, threads: usize) -> Result<Option<(fixtures::Process, SocketAddr)>> {
    let (address, root) = (lasting_address()?, root.canonicalize()?);
    let files = format!(
        "sendfile on; tcp_nopush on; keepalive_requests 1000000000;
        open_file_cache max=10000 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;
        server {{ listen {address}; root {}; }}",
        root.display()
    );
    let settings = CacheSettings { threads, nginx_http: &files, nginx_location: "", varnish: "" };
    // The cache that it has, too, is asked for nothing: the address of its origin is any.
    let started = WebCache::Nginx.start(dir, address, settings)?;
    Ok(started.map(|(process, _)| (process, address)))
}
