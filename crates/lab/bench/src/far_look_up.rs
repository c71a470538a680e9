//! Lookups in the version table of a home that is another process, over TCP, by libfabric and in memory that both map:
//! alone, and as many at a time as clients ask for, beside a bare ping-pong.
//!
//! The figure is the time for each of many: they share messages, so each costs less than a round trip.

use crate::floor::PingPong;
use crate::sample::{Sample, median, thirds};
use crate::{Line, Place, Result};
use coherence::{AttachedHome, Cache, Claim, Dependency};
use fixtures::{Process, Program};
use net::Runtime;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stored responses.
const RESPONSES: usize = 10_000;

/// Lookups at a time: those of this many clients, each of which waits for its answer.
const CLIENTS: usize = 64;

/// Round trips, and lookups alone, of a turn.
const ALONE: usize = 2000;

const TURNS: usize = 9;

/// The must of the issue.
const OVER_PING_MAX: f64 = 0.5;

/// Over TCP.
pub(crate) fn measure(place: &Place) -> Result<Line> {
    let far = Far::start(place, Way::Tcp)?;
    let mut ping = PingPong::new(8, 8)?;
    let (mut pings, mut turns) = (Vec::new(), Turns::default());
    for _ in 0..TURNS {
        pings.push(ping_all(&mut ping)?);
        turns.add(&far)?;
    }
    let (ping_us, look_up_us) = (median(pings.clone()), median(turns.together));
    let over_ping = look_up_us / ping_us;
    let line = Line::new("look-up-tcp")
        .count("responses", RESPONSES as u64)
        .count("clients", CLIENTS as u64)
        .figure("look_up_us", look_up_us)
        .figure("alone_us", median(turns.alone))
        .figure("ping_us", ping_us)
        .figure("over_ping", over_ping)
        .met(over_ping <= OVER_PING_MAX, &thirds(&pings));
    Ok(line)
}

/// By libfabric, beside the same over TCP.
pub(crate) fn measure_one_sided(place: &Place, provider: &str) -> Result<Line> {
    let (one_sided, tcp) = (Far::start(place, Way::Fabric(provider))?, Far::start(place, Way::Tcp)?);
    let (mut turns, mut of_tcp) = (Turns::default(), Turns::default());
    for _ in 0..TURNS {
        turns.add(&one_sided)?;
        of_tcp.add(&tcp)?;
    }
    let (look_up_us, alone_us) = (median(turns.together), median(turns.alone));
    let line = Line::new("look-up-fabric")
        .word("provider", provider)
        .count("responses", RESPONSES as u64)
        .count("clients", CLIENTS as u64)
        .figure("look_up_us", look_up_us)
        .figure("alone_us", alone_us)
        .figure("over_tcp", look_up_us / median(of_tcp.together))
        .figure("alone_over_tcp", alone_us / median(of_tcp.alone));
    Ok(line)
}

/// How the table of another process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way<'a> {
    /// In memory that both map.
    Mapped,
    /// The home answers.
    Tcp,
    /// By libfabric, with this provider.
    Fabric(&'a str),
}

/// A home in another process, and responses that are stored there.
pub(crate) struct Far {
    claims: Arc<[Claim]>,
    /// Its thread stands for one that serves clients.
    tasks: tokio::runtime::Runtime,
    _cache: AttachedHome,
    _home: Process,
}

impl Far {
    /// Starts it, and stores the responses.
    pub(crate) fn start(place: &Place, way: Way) -> Result<Self> {
        let socket = place.dir.join("home").display().to_string();
        let words = match way {
            Way::Mapped => &["--socket", &socket][..],
            Way::Tcp => &["--listen", "127.0.0.1:0"],
            Way::Fabric(provider) => &["--listen", "127.0.0.1:0", "--fabric", provider],
        };
        let home = Program::from(&place.program).start("the home", &[&["home"], words].concat())?;
        let runtime = Runtime::start()?;
        let address = if way == Way::Mapped { socket } else { home.address().to_string() }.parse()?;
        let cache = match way {
            Way::Fabric(provider) => AttachedHome::attach_by_fabric(&address, provider, &runtime)?,
            Way::Mapped | Way::Tcp => AttachedHome::attach(&address, &runtime)?,
        };
        let tasks = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let claims = tasks.block_on(fill(&cache.cache()))?;
        Ok(Self { claims, tasks, _cache: cache, _home: home })
    }

    /// Lookups one after the other, each with a clock's reading of its own.
    pub(crate) fn look_alone(&self) -> Result<Sample> {
        self.tasks.block_on(look_alone(&self.claims))
    }
}

/// Lookups, in microseconds: the median of those alone, and the time for each of those of many clients.
#[derive(Default)]
struct Turns {
    alone: Vec<f64>,
    together: Vec<f64>,
}

impl Turns {
    fn add(&mut self, far: &Far) -> Result<()> {
        self.alone.push(far.look_alone()?.micros(0.5));
        self.together.push(far.tasks.block_on(look_together(&far.claims))?);
        Ok(())
    }
}

/// Stores responses with a dependency each.
async fn fill(cache: &Cache) -> Result<Arc<[Claim]>> {
    let begun = Instant::now();
    let dependency = |number| Dependency::new(format!("item:{number}")).expect("it is short");
    // Tickets have a connection of their own, which may be up before that of responses.
    let (ticket, first) = loop {
        if let Some(ticket) = cache.fetch_ticket().await
            && let Ok(claim) = cache.store(ticket, &[dependency(0)]).await
        {
            break (ticket, claim);
        }
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("the home stores nothing after ten seconds".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut claims = vec![first];
    for number in 1..RESPONSES {
        claims.push(cache.store(ticket, &[dependency(number)]).await?);
    }
    Ok(claims.into())
}

/// The median of round trips, in microseconds.
fn ping_all(ping: &mut PingPong) -> Result<f64> {
    let mut sample = Sample::default();
    for _ in 0..ALONE {
        sample.push(ping.once()?);
    }
    Ok(sample.micros(0.5))
}

async fn look_alone(claims: &[Claim]) -> Result<Sample> {
    let mut sample = Sample::default();
    for claim in claims.iter().step_by(RESPONSES / ALONE) {
        let begun = Instant::now();
        check(claim.look().await)?;
        sample.push(begun.elapsed());
    }
    Ok(sample)
}

/// The time for each lookup of many clients, in microseconds.
async fn look_together(claims: &Arc<[Claim]>) -> Result<f64> {
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|client| {
        let claims = Arc::clone(claims);
        tokio::spawn(async move {
            for claim in claims.iter().skip(client).step_by(CLIENTS) {
                if !claim.look().await {
                    return false;
                }
            }
            true
        })
    });
    for client in clients.collect::<Vec<_>>() {
        check(client.await?)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / RESPONSES as f64)
}

fn check(is_current: bool) -> Result<()> {
    if is_current { Ok(()) } else { Err("a response is not current that nobody has changed".into()) }
}
