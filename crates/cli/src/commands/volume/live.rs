//! Volumes that are attached at this host, as the processes tell that have them.

use crate::Result;
use crate::output::{Output, number, visible};
use crate::stopper::Interrupt;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use volumes::control::{self, Action, ControlError, Order};
use volumes::registry::{Volume, host_name};

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

    /// Of a volume of one host, if a process has it: one that has ended has left its writes in the cache, which may be another
    /// volume's since.
    pub(super) fn of_home(home: &Path, dirty_at: Option<&str>, named: Option<&Path>) -> Result<Option<Self>> {
        let Some(place) = dirty_at else { return Ok(None) };
        let path = home.canonicalize().map_err(|error| format!("cannot open {}: {error}", home.display()))?;
        let identity = path.into_os_string().into_string();
        let identity = identity.map_err(|path| format!("{} is no UTF-8: choose another name", path.display()))?;
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

    /// Has its process do something, and waits for as long as that takes, or until it is given up.
    pub(super) fn order(&self, action: Action, interrupt: &Interrupt) -> Result {
        let order = Order { volume: self.identity.clone(), action };
        control::order(self.cache()?, &order, &|| interrupt.has_come()).map_err(|error| match error {
            ControlError::NotThere(_) | ControlError::Ended(_) => format!(
                "{error}: attach the volume again, or bring it home with `thorp volume detach`, before it is changed"
            )
            .into(),
            error => error.into(),
        })
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

/// How the volume with this cache stands.
pub(super) fn ask(cache: &Path) -> Result<Value> {
    let status = control::ask(cache)?;
    if status["kind"] != "volume" {
        let text = format!(
            "{} is no cache of a volume: `thorp volume holders --dir` asks a holder",
            visible(&cache.display().to_string())
        );
        return Err(text.into());
    }
    Ok(status)
}

/// Prints how a volume of a store stands at this host, where the store cannot be asked.
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
    let figure = |name: &str| live[name].as_u64().unwrap_or_default();
    let [dirty, clean, home] = ["read_blocks_dirty", "read_blocks_clean", "read_blocks_home"].map(figure);
    let reads = match dirty + clean + home {
        0 => "none".to_owned(),
        all => format!(
            "{all} blocks, {:.1} % of them hits ({dirty} dirty, {clean} clean, {home} from home)",
            100.0 * (dirty + clean) as f64 / all as f64
        ),
    };
    let age = live["dirty_age_s"].as_f64().map(|age| format!(", the oldest {age:.1} s old")).unwrap_or_default();
    let not_home = format!(
        "{} of {} bytes in {} writes{age}",
        figure("dirty_bytes"),
        figure("dirty_bytes_max"),
        figure("dirty_writes")
    );
    let requests = format!(
        "{} under way of {} connections; {} since the begin, {} refused, {} failed",
        figure("requests_waiting"),
        figure("connections"),
        figure("requests"),
        figure("requests_refused"),
        figure("requests_failed"),
    );
    let mut rows = vec![
        ("served_at", json!(texts(&live["listen"]))),
        ("home_at", json!(text(&live["home"]))),
        ("attached_for_s", live["attached_s"].clone()),
        ("not_home", json!(not_home)),
        ("clean_blocks", json!(format!("{} of {}", figure("clean_blocks"), figure("clean_blocks_max")))),
        ("reads", json!(reads)),
        ("writes", json!(format!("{} blocks; {} write-backs", figure("written_blocks"), figure("write_backs")))),
        ("requests", json!(requests)),
        ("copies", live["copies"].clone()),
    ];
    for holder in live["holders"].as_array().into_iter().flatten() {
        let [name, address, state] = ["name", "address", "state"].map(|field| text(&holder[field]));
        rows.push(("holder", json!(format!("{name} at {address}: {state}"))));
    }
    let troubles = [
        ("degraded", "degraded"),
        ("home_trouble", "trouble_with_home"),
        ("cache_trouble", "trouble_with_the_cache"),
        ("failed", "failed"),
    ];
    let told = troubles.iter().filter(|(field, _)| live[*field].is_string());
    let mut told: Vec<_> = told.map(|(field, name)| (*name, json!(text(&live[*field])))).collect();
    if live["is_leased"] == false {
        told.push(("requests_wait", json!("the store has not said for too long that the volume is this host's")));
    }
    if told.is_empty() {
        rows.push(("troubles", json!("none")));
    }
    rows.extend(told);
    if live["read_error"].is_string() {
        let age = live["read_error_age_s"].as_f64().unwrap_or_default();
        rows.push(("last_failed_read", json!(format!("{age:.1} s ago: {}", text(&live["read_error"])))));
    }
    output.table(&rows)
}

fn texts(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    visible(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).into_owned()
}
