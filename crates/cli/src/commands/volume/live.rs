//! Volumes that are attached at this host, as the processes tell that have them.

use crate::Result;
use crate::output::{Output, Progress, number, visible};
use crate::stopper::Interrupt;
use ::registry::{Volume, host_name};
use attach::control::{self, Action, ControlError, LiveCopies, LiveScrub, LiveVolume, Order, VolumeCounters};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The intervals of checking for the end of an order, and of asking for the dirty bytes.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A volume that is attached.
pub(super) struct Attachment {
    /// Which one it is, as its process says: a cache may be that of another volume by now.
    identity: String,
    at: At,
}

/// Where it is attached, as far as it can be asked from here.
enum At {
    /// With this cache, at this host.
    Here(PathBuf),
    /// At another host, as its place says.
    Elsewhere(String),
}

impl At {
    /// With the cache that the user names; or where the registry, or a home, says that it is: `HOST:CACHE`.
    fn find(named: Option<&Path>, place: &str) -> Self {
        let here = || place.split_once(':').filter(|(host, _)| *host == host_name()).map(|(_, cache)| cache.into());
        match named.map(Path::to_owned).or_else(here) {
            Some(cache) => Self::Here(cache),
            None => Self::Elsewhere(place.to_owned()),
        }
    }
}

impl Attachment {
    /// Of a volume of a store, if it has an owner.
    pub(super) fn of_store(volume: &Volume, named: Option<&Path>) -> Option<Self> {
        let at = volume.view.entry.owner.map(|_| At::find(named, &volume.place))?;
        Some(Self { identity: number(volume.id.0), at })
    }

    /// Of a volume of one host, if a process has it: one that has ended has left its writes in the cache, which may be
    /// another volume's since.
    pub(super) fn of_home(home: &Path, dirty_at: Option<&str>, named: Option<&Path>) -> Result<Option<Self>> {
        let Some(place) = dirty_at else { return Ok(None) };
        let path = home.canonicalize().map_err(|error| format!("cannot open {}: {error}", home.display()))?;
        let identity = path.into_os_string().into_string();
        let identity = identity.map_err(|path| format!("{} is not UTF-8: choose another name", path.display()))?;
        let attachment = Self { identity, at: At::find(named, place) };
        let At::Here(cache) = &attachment.at else { return Ok(Some(attachment)) };
        let is_ended = match control::ask(cache) {
            Err(ControlError::NotThere(_) | ControlError::Ended(_)) => true,
            // The user means this one: it is refused as another one.
            Ok(live) => named.is_none() && live["identity"] != attachment.identity.as_str(),
            // Nobody knows.
            Err(_) => false,
        };
        Ok((!is_ended).then_some(attachment))
    }

    /// How the volume stands, by its process.
    fn ask(&self) -> Result<Value> {
        let cache = self.cache()?;
        let live = ask(cache)?;
        if live["identity"] == self.identity.as_str() {
            return Ok(live);
        }
        let text = "is the cache of another volume now: the process that had it for this one has ended";
        Err(format!("{} {text}", visible(&cache.display().to_string())).into())
    }

    /// Has its process do something, and waits for as long as that takes, or until it is given up. Shows the progress
    /// of the write-back, which takes longest.
    pub(super) fn order(&self, action: Action, interrupt: &Interrupt) -> Result {
        let (cache, order) = (self.cache()?, Order { volume: self.identity.clone(), action });
        let is_done = AtomicBool::new(false);
        let done = thread::scope(|scope| {
            scope.spawn(|| show_dirty(cache, &is_done));
            let done = control::order(cache, &order, &|| interrupt.has_come());
            is_done.store(true, SeqCst);
            done
        });
        done.map_err(|error| match error {
            ControlError::NotThere(_) | ControlError::Ended(_) => format!(
                "{error}: attach the volume again, or bring it home with `thorp volume detach`, before it is changed"
            )
            .into(),
            error => error.into(),
        })
    }

    /// The cache that it is attached with, if that is at this host.
    pub(super) fn here(&self) -> Option<&Path> {
        if let At::Here(cache) = &self.at { Some(cache) } else { None }
    }

    fn cache(&self) -> Result<&Path> {
        match &self.at {
            At::Here(cache) => Ok(cache),
            At::Elsewhere(place) => Err(format!(
                "it is attached at {}: ask there; or, if that is this host under another name, say --cache with its cache",
                visible(place)
            )
            .into()),
        }
    }
}

/// The scrubs of a volume, for people.
fn scrubs(it: &LiveScrub) -> Vec<(&'static str, Value)> {
    let hours = |seconds: u64| format!("{:.1} h", seconds as f64 / 3600.0);
    let next = match it.running_bytes {
        Some(bytes) => format!("running, {bytes} bytes compared"),
        None => format!("in {}", hours(it.next_s)),
    };
    let mut rows = vec![("next_scrub", json!(next))];
    let (Some(last), Some(ago)) = (&it.last, it.last_s) else { return rows };
    let error = last.error.as_ref().map(|why| format!("; it did not come to its end: {why}")).unwrap_or_default();
    let text = format!(
        "{} ago, {} s, {} blocks: {} differ, {} repaired{error}",
        hours(ago),
        last.took_s,
        last.checked_blocks,
        last.differences,
        last.repaired
    );
    rows.push(("last_scrub", json!(visible(&text))));
    rows.extend(last.findings.iter().map(|it| ("scrub_found", json!(visible(it)))));
    rows
}

/// Shows how much of what was dirty first has been written back, until it is done.
fn show_dirty(cache: &Path, is_done: &AtomicBool) {
    let (mut progress, mut asked_at) = (None, Instant::now());
    while !is_done.load(SeqCst) {
        thread::sleep(LOOK_EVERY);
        if asked_at.elapsed() < ASK_EVERY {
            continue;
        }
        asked_at = Instant::now();
        let dirty = control::ask(cache).ok().and_then(|live| live["dirty_bytes"].as_u64());
        if let Some(dirty) = dirty {
            let (shown, most) = progress.get_or_insert_with(|| (Progress::new("writing back", dirty), dirty));
            // New writes are written back, too.
            *most = dirty.max(*most);
            shown.set(*most - dirty, *most);
        }
    }
    if let Some((shown, _)) = progress {
        shown.end();
    }
}

/// How the volume with this cache stands.
pub(super) fn ask(cache: &Path) -> Result<Value> {
    let status = control::ask(cache)?;
    if status["kind"] != "volume" {
        let text = format!(
            "{} is not a cache of a volume: `thorp volume holders --dir` asks a holder",
            visible(&cache.display().to_string())
        );
        return Err(text.into());
    }
    Ok(status)
}

/// Prints how a volume of a store is at this host, where the store cannot be asked.
pub(super) fn print_without_store(name: &str, why: &crate::Error, cache: &Path, output: &mut Output) -> Result {
    let live = ask(cache)?;
    let mut rows = vec![("volume", live["identity"].clone()), ("name", json!(name)), ("store", json!(why.to_string()))];
    if output.is_json() {
        rows.push(("live", live));
        return output.table(&rows);
    }
    output.table(&rows)?;
    output.raw("where it is attached")?;
    people(&live, output)
}

/// Prints what is known of a volume, and how it stands where it is attached.
pub(super) fn print(mut known: Vec<(&str, Value)>, attachment: Option<&Attachment>, output: &mut Output) -> Result {
    let asked = attachment.map(Attachment::ask);
    if output.is_json() {
        match asked {
            None => known.push(("live", Value::Null)),
            Some(Ok(live)) => known.push(("live", live)),
            Some(Err(why)) => known.extend([("live", Value::Null), ("live_why", json!(why.to_string()))]),
        }
        return output.table(&known);
    }
    output.table(&known)?;
    match asked {
        None => Ok(()),
        Some(Ok(live)) => {
            output.raw("where it is attached")?;
            people(&live, output)
        }
        Some(Err(why)) => output.raw(format_args!("  its figures are not to be had: {}", visible(&why.to_string()))),
    }
}

/// The figures of an attached volume, for people.
pub(super) fn people(live: &Value, output: &mut Output) -> Result {
    let live: LiveVolume = serde_json::from_value(live.clone())
        .map_err(|error| format!("its process tells what none does ({error}): is it of another version?"))?;
    if let Some(said) = &live.attaching {
        return output.table(&[("being_attached", json!(visible(said)))]);
    }
    let LiveVolume { gauges, counters, .. } = &live;
    let VolumeCounters { read_blocks_dirty: dirty, read_blocks_clean: clean, read_blocks_home: home, .. } = *counters;
    let reads = match dirty + clean + home {
        0 => "none".to_owned(),
        all => format!(
            "{all} blocks, {:.1} % of them hits ({dirty} dirty, {clean} clean, {home} from home)",
            100.0 * (dirty + clean) as f64 / all as f64
        ),
    };
    let age = gauges.dirty_age_s.map(|age| format!(", the oldest {age:.1} s old")).unwrap_or_default();
    let not_home =
        format!("{} of {} bytes in {} writes{age}", gauges.dirty_bytes, gauges.dirty_bytes_max, gauges.dirty_writes);
    let requests = format!(
        "{} under way of {} connections; {} since the begin, {} refused, {} failed",
        gauges.requests_waiting,
        gauges.connections,
        counters.requests,
        counters.requests_refused,
        counters.requests_failed
    );
    let mut rows = vec![
        ("served_at", json!(visible(&live.listen.join(", ")))),
        ("home_at", json!(visible(&live.home))),
        ("attached_for_s", json!(gauges.attached_s)),
        ("not_home", json!(not_home)),
        ("clean_blocks", json!(format!("{} of {}", gauges.clean_blocks, gauges.clean_blocks_max))),
        ("reads", json!(reads)),
        ("writes", json!(format!("{} blocks; {} write-backs", counters.written_blocks, counters.write_backs))),
        ("requests", json!(requests)),
        ("copies", json!(gauges.copies)),
    ];
    for LiveCopies { name, address, state, room, is_disk_full, .. } in &live.holders {
        let address = address.as_deref().unwrap_or("an address that nobody knows");
        let room = if state == "filling" { format!(", and takes {room} bytes more") } else { String::new() };
        let full = if *is_disk_full { ", and its disk is full" } else { "" };
        rows.push(("holder", json!(visible(&format!("{name} at {address}: {state}{room}{full}")))));
    }
    let troubles = [
        ("degraded", &live.degraded),
        ("gone_without", &live.gone_without),
        ("trouble_with_home", &live.home_trouble),
        ("trouble_with_registry", &live.registry_trouble),
        ("trouble_with_the_cache", &live.cache_trouble),
        ("failed", &live.failed),
    ];
    let told = troubles.iter().filter_map(|(name, why)| Some((*name, json!(visible(why.as_deref()?)))));
    let mut told: Vec<_> = told.collect();
    if !gauges.is_leased {
        told.push(("requests_wait", json!("the store has not said for too long that the volume is this host's")));
    }
    rows.extend(live.scrub.iter().flat_map(scrubs));
    if told.is_empty() {
        rows.push(("troubles", json!("none")));
    }
    rows.extend(told);
    if let Some(why) = &live.read_error {
        let age = live.read_error_age_s.unwrap_or_default();
        rows.push(("last_failed_read", json!(format!("{age:.1} s ago: {}", visible(why)))));
    }
    output.table(&rows)
}
