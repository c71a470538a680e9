//! Volumes that are attached at this host, as the processes tell that have them.

use crate::Result;
use crate::output::{Output, visible};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use volumes::control::{self, Command, ControlError};
use volumes::registry::host_name;

/// Where a volume is attached, as far as it can be asked from here.
pub(super) enum Attachment {
    /// With this cache, at this host.
    Here(PathBuf),
    /// At another host, as its place says.
    Elsewhere(String),
}

impl Attachment {
    /// With the cache that the user names; or where the registry, or a home, says that it is: `HOST:CACHE`.
    pub(super) fn find(named: Option<&Path>, place: &str) -> Self {
        let here = || place.split_once(':').filter(|(host, _)| *host == host_name()).map(|(_, cache)| cache.into());
        match named.map(Path::to_owned).or_else(here) {
            Some(cache) => Self::Here(cache),
            None => Self::Elsewhere(place.to_owned()),
        }
    }

    /// How the volume stands, by its process.
    pub(super) fn ask(&self) -> Result<Value> {
        match self {
            Self::Here(cache) => ask(cache),
            Self::Elsewhere(place) => Err(elsewhere(place).into()),
        }
    }

    /// Has its process do something, and waits for as long as that takes.
    pub(super) fn command(&self, command: &Command) -> Result {
        match self {
            Self::Here(cache) => control::command(cache, command).map_err(|error| match error {
                ControlError::NotThere(_) | ControlError::Ended(_) => format!(
                    "{error}: attach the volume again, or bring it home with `thorp volume detach`, before it is changed"
                )
                .into(),
                error => error.into(),
            }),
            Self::Elsewhere(place) => Err(elsewhere(place).into()),
        }
    }

    /// Whether a process has it. One that has ended has left its writes in the cache.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Here(cache) => {
                let asked = control::ask(cache);
                !matches!(asked, Err(ControlError::NotThere(_) | ControlError::Ended(_)))
            }
            Self::Elsewhere(_) => true,
        }
    }
}

fn elsewhere(place: &str) -> String {
    format!(
        "it is attached at {}: ask there; or, if that is this host under another name, say --cache with its cache",
        visible(place)
    )
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
    let number = |name: &str| live[name].as_u64().unwrap_or_default();
    let [dirty, clean, home] = ["read_blocks_dirty", "read_blocks_clean", "read_blocks_home"].map(number);
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
        number("dirty_bytes"),
        number("dirty_bytes_max"),
        number("dirty_writes")
    );
    let requests = format!(
        "{} under way of {} connections; {} since the begin, {} refused, {} failed",
        number("requests_waiting"),
        number("connections"),
        number("requests"),
        number("requests_refused"),
        number("requests_failed"),
    );
    let mut rows = vec![
        ("served_at", json!(texts(&live["listen"]))),
        ("home_at", json!(text(&live["home"]))),
        ("attached_for_s", live["attached_s"].clone()),
        ("not_home", json!(not_home)),
        ("clean_blocks", json!(format!("{} of {}", number("clean_blocks"), number("clean_blocks_max")))),
        ("reads", json!(reads)),
        ("writes", json!(format!("{} blocks; {} write-backs", number("written_blocks"), number("write_backs")))),
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
    let told: Vec<_> = told.map(|(field, name)| (*name, json!(text(&live[*field])))).collect();
    if live["is_leased"] == false {
        rows.push(("reads_wait", json!("the store has not said for too long that the volume is this host's")));
    }
    if told.is_empty() {
        rows.push(("troubles", json!("none")));
    }
    rows.extend(told);
    output.table(&rows)
}

fn texts(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    visible(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).into_owned()
}
