//! Volumes of a store, which any host can attach: made, listed, looked at, removed.

use super::live::{self, Attachment};
use super::store::{self, GRACE, Store};
use super::{homes, registry};
use crate::Result;
use crate::cli::{
    VolumeAttachArgs, VolumeCreateArgs, VolumeDegraded, VolumeDetachArgs, VolumeListArgs, VolumeRemoveArgs,
};
use crate::error::usage;
use crate::operators::Operators;
use crate::output::{Output, number, visible};
use crate::scratch::Scratch;
use crate::stopper::Interrupt;
use ::registry::{GoneWithout, HomeNode, RegistryError, StoreRegistry, Volume, domain, draw_volume, host_name};
use attach::control::{AttachingVolume, Control, observed};
use attach::{
    AttachConfig, AttachError, Attached, Degraded, FarError, PATIENCE, REPLACE_AFTER, Registered, StoredVolume,
    TakeOverError, TakeOverWord, VolumeId, bring_home,
};
use net::{ListenError, Runtime};
use ops::Server;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Whether home has removed what was made there.
type Removed = std::result::Result<(), FarError>;

/// A holder that counts nothing for longer is considered lost.
const SILENCE: Duration = Duration::from_secs(5);

/// The name of a volume, as it stands on the command line.
pub(super) fn name(volume: &Path) -> Result<&str> {
    Ok(volume.to_str().ok_or_else(|| RegistryError::Name(volume.display().to_string()))?)
}

pub(super) fn create(args: &VolumeCreateArgs, store: &str, output: &mut Output) -> Result {
    let (name, size) = (name(&args.volume)?, args.size as u64);
    let store = Store::connect(store, &Interrupt::watch()?)?;
    // Before a home is made for nothing.
    store.expect_free(name)?;
    let (volume, lease) = (draw_volume()?, Duration::from_secs(args.lease_s.into()));
    let node = store.new_home_node()?;
    let home = store.create_home(&node, volume, size)?;
    let entry = Registered::new(size, args.copies, lease);
    register(&store, name, (volume, &entry, &node), || home.remove(attach::Epoch(0)))?;
    let (number, store) = (number(volume.0), store.address());
    let text = format!("{name}: {size} bytes of zeros; attach it with `thorp volume attach {name} --store {store}`");
    let fields = json!({
        "name": name, "volume": number, "size": size, "copies": args.copies, "home": node.address,
    });
    output.line(&fields, text)
}

/// Registers a volume whose home was just made at this node, and removes that if it is not registered.
pub(super) fn register(
    store: &Store,
    name: &str,
    (id, entry, node): (VolumeId, &Registered, &HomeNode),
    remove: impl FnOnce() -> Removed,
) -> Result {
    let Err(error) = store.registry().create(name, id, entry, node.node) else {
        // The first attachment tells it, too.
        let _ = store.find(name).and_then(|made| Ok(store.home_at(node, id)?.keep(&made)?));
        return Ok(());
    };
    if !matches!(error, RegistryError::Unreachable(_)) {
        return Err(is_left(error.into(), id, store.address(), remove()));
    }
    // It may have been registered, or still be: its home is not to be removed under it.
    if store.find(name).is_ok_and(|found| found.id == id) {
        return Ok(());
    }
    let text = "nobody knows whether it was made: `thorp volume list` shows it then. Otherwise";
    Err(format!("{error}; {text} {}", homes::of_none(id, store.address())).into())
}

/// Why a volume was not made; with what is left of it.
pub(super) fn is_left(why: crate::Error, id: VolumeId, store: &str, removed: Removed) -> crate::Error {
    match removed {
        Ok(()) | Err(FarError::NoVolume(..)) => why,
        // That is why, too.
        Err(FarError::GivenUp) => format!("{why}: {}", homes::of_none(id, store)).into(),
        Err(error) => format!("{why}; and it could not be cleaned up ({error}): {}", homes::of_none(id, store)).into(),
    }
}

pub(super) fn remove(args: &VolumeRemoveArgs, output: &mut Output) -> Result {
    match (&args.volume, args.home) {
        (Some(volume), _) => remove_volume(volume, &args.store, output),
        (None, Some(home)) => homes::remove(VolumeId(home), args, output),
        (None, None) => Err(usage("say which volume, or --home with the number of a home")),
    }
}

fn remove_volume(volume: &str, store: &str, output: &mut Output) -> Result {
    let store = Store::connect(store, &Interrupt::watch()?)?;
    let found = store.find(volume)?;
    let home = match store.home_at(&store.home_node(found.id)?, found.id) {
        Ok(home) => Some(home),
        // Its home was lost: it should go all the same.
        Err(FarError::NoVolume(..)) => None,
        Err(error) => return Err(error.into()),
    };
    // The registry first: nobody attaches it any more.
    store.registry().remove(volume)?;
    match home.map_or(Ok(()), |home| home.remove(found.view.entry.epoch.next())) {
        Ok(()) | Err(FarError::NoVolume(..)) => {}
        Err(error) => {
            let text = homes::of_none(found.id, store.address());
            return Err(format!("'{volume}' is removed, and its home could not be ({error}): {text}").into());
        }
    }
    output.line(&json!({"removed": volume}), format_args!("removed: {volume}"))
}

pub(super) fn list(args: &VolumeListArgs, output: &mut Output) -> Result {
    let registry = registry::to_ask(&args.store)?;
    let (volumes, silent) = (registry.list()?, registry::silent_owners(&registry, |_| true)?);
    let width = volumes.iter().map(|it| it.name.len()).max().unwrap_or(0);
    volumes.iter().try_for_each(|volume| {
        let Volume { name, view, .. } = volume;
        let of = if homes::is_exported(name) { ", the snapshot of an export" } else { "" };
        let silence = silent.get(&volume.id.0).copied();
        let text = format!("{name:<width$}  {:>16} bytes  {}{of}", view.entry.size, owner(volume, silence));
        output.line(&Value::Object(describe(volume, silence)), text)
    })
}

pub(super) fn status(volume: &Path, store: &str, cache: Option<&Path>, output: &mut Output) -> Result {
    let name = name(volume)?;
    let registry = match (registry::to_ask(store), cache) {
        (Ok(registry), _) => registry,
        // The process that has it says how it stands all the same.
        (Err(error), Some(cache)) => return live::print_without_store(name, &error.into(), cache, output),
        (Err(error), None) => {
            return Err(format!("{error}; --cache asks the process that has it at this host").into());
        }
    };
    let volume = store::find(&registry, store, name)?;
    let silent = registry::silent_owners(&registry, |it| it.id == volume.id)?;
    let mut fields = describe(&volume, silent.get(&volume.id.0).copied());
    fields.insert("holders_away".to_owned(), json!(registry::away(&registry, &volume)?));
    let rows: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    live::print(rows, Attachment::of_store(&volume, cache).as_ref(), output)
}

/// An attachment that has begun, in words for its operator, who asks at a socket in its cache.
pub(super) struct Begun {
    /// The one who answers there.
    pub(super) volume: Arc<AttachingVolume>,
    /// The socket. It is made when the cache is known to be this process's.
    pub(super) control: Option<std::result::Result<Control, ListenError>>,
    /// The operators' listener at an address, if there is one.
    pub(super) operators: Option<Server>,
}

impl Begun {
    fn say(&mut self, text: &str, cache: &Path) {
        eprintln!("{text}");
        self.volume.say(text);
        self.control.get_or_insert_with(|| Control::start(cache, self.volume.clone()));
    }
}

/// Attaches a volume, which is taken over if the host that had it is silent.
pub(super) fn attach(
    args: &VolumeAttachArgs,
    store: &str,
    operators: Operators,
    stop: &AtomicBool,
) -> Result<(Attached, Begun, u64)> {
    let (name, here) = (name(&args.volume)?, host_name());
    let cache = std::path::absolute(&args.cache).unwrap_or_else(|_| args.cache.clone());
    let place = format!("{here}:{}", cache.display());
    let registry = Arc::new(StoreRegistry::connect(store, &place)?);
    let found = store::find(&registry, store, name)?;
    let stored = StoredVolume {
        registry: registry.clone(),
        runtime: Runtime::start()?,
        volume: found.id,
        domain: domain(args.domain.as_ref().unwrap_or(&here)),
        spare_holders: args.spare,
        more_copies_after: args.more_copies_after,
        degraded: match args.degraded {
            VolumeDegraded::WriteThrough => Degraded::WriteThrough,
            VolumeDegraded::Refuse => Degraded::Refuse,
        },
        silence: Duration::from_millis(args.copy_timeout_ms),
        replace_after: REPLACE_AFTER,
        lease_patience: PATIENCE,
    };
    let volume = Arc::new(AttachingVolume::new(name.to_owned(), number(found.id.0)));
    let operators = operators.serve(observed(volume.clone()))?;
    let mut begun = Begun { volume, control: None, operators };
    // With its first word its cache is locked, and nobody else answers there.
    let mut say = |word: TakeOverWord| begun.say(&say(&found, &word, &place), &args.cache);
    let config = super::config(args, found.view.entry.size);
    let attached = Attached::attach_stored(&stored, &config, stop, &mut say);
    let attached = attached.map_err(|error| match error {
        AttachError::TakeOver(error) => refused(&registry, name, error),
        error => error.into(),
    })?;
    Ok((attached, begun, config.log_bytes))
}

/// Attaches a volume that nobody has, with a small cache that goes with this call, and detaches it again.
///
/// It is done until somebody wants it to end: `act` looks whether that is so.
pub(super) fn attach_briefly(
    found: &Volume,
    store: &Store,
    act: impl FnOnce(&Attached, &dyn Fn() -> bool) -> Result,
) -> Result {
    let interrupt = store.interrupt();
    let scratch = Scratch::new(None, &std::env::temp_dir(), "volume")?;
    let place = format!("{}:{}", host_name(), scratch.path().display());
    let stored = StoredVolume {
        registry: Arc::new(store::registry(store.address(), place, interrupt)?),
        runtime: store.runtime().clone(),
        volume: found.id,
        domain: domain(&host_name()),
        spare_holders: 0,
        more_copies_after: 0,
        degraded: Degraded::WriteThrough,
        silence: SILENCE,
        replace_after: REPLACE_AFTER,
        lease_patience: PATIENCE,
    };
    let config = AttachConfig {
        log_bytes: attach::LOG_BYTES_MIN,
        clean_bytes: 0,
        ..AttachConfig::new(PathBuf::new(), scratch.path().join("cache"))
    };
    let (stop, words) = (interrupt.flag(), found.clone());
    let attached = interrupt.within(GRACE, move || {
        let mut trouble = |word: TakeOverWord| match word {
            // That is how it always goes.
            TakeOverWord::Claimed(_) => {}
            word => eprintln!("{}", say(&words, &word, "")),
        };
        Attached::attach_stored(&stored, &config, &stop, &mut trouble)
    });
    let attached = Arc::new(attached??);
    let done = act(&attached, &|| interrupt.has_come());
    // If it was not done, too, nobody should wait for this host.
    let detached = interrupt.within(GRACE, move || attached.detach());
    done?;
    Ok(detached??)
}

/// Brings home what a host that is gone has left, and leaves the volume to nobody.
pub(super) fn detach(args: &VolumeDetachArgs, output: &mut Output) -> Result {
    let (name, interrupt) = (name(&args.volume)?, Interrupt::watch()?);
    let store = Store::connect(&args.store, &interrupt)?;
    let found = store.find(name)?;
    if found.view.entry.owner.is_some() {
        let (registry, runtime, home) = (store.registry().clone(), store.runtime().clone(), store.home(found.id)?);
        let brought = bring_home(registry, runtime, home, args.force, &|| interrupt.has_come(), &mut |word| {
            eprintln!("{}", say(&found, &word, ""));
        });
        brought.map_err(|error| refused(store.registry(), name, error))?;
    }
    output.line(&json!({"detached": name}), format_args!("detached: all data of {name} was written back"))
}

/// Why a volume is not this host's, with the place of the host that has it.
fn refused(registry: &StoreRegistry, name: &str, error: TakeOverError) -> crate::Error {
    match error {
        TakeOverError::Lives | TakeOverError::Lost(_) => {
            let place = registry.find(name).map(|it| it.place).unwrap_or_default();
            format!("'{name}' is attached at {}, and its host lives: detach it there first", visible(&place)).into()
        }
        error => error.into(),
    }
}

/// A word on how it goes, with a cache at this place.
fn say(volume: &Volume, word: &TakeOverWord, here: &str) -> String {
    let Volume { name, place, .. } = volume;
    match word {
        TakeOverWord::Watches { lease, is_own, is_used } => {
            let (at, lease) = (visible(place), lease.as_secs_f64());
            let why = if *is_own {
                ", with this cache: since then it was copied or moved, or its machine was started again"
            } else if *is_used && place == here {
                "; this cache was copied or restored: another attachment of it has been made since"
            } else {
                ""
            };
            format!("'{name}' is attached at {at}{why}. If that is silent for {lease} s, it is taken over")
        }
        TakeOverWord::WatchesRescue => {
            format!("another host is bringing '{name}' home, as the one that had it was silent: that is waited for")
        }
        TakeOverWord::GoesOn => "it goes on".to_owned(),
        TakeOverWord::Claimed(epoch) => {
            format!("'{name}' is this host's, by attachment {}: what is not home is brought there", epoch.0)
        }
        TakeOverWord::Missing { lists, .. } if lists.is_empty() => format!(
            "the only copy of what is not home of '{name}' is in the cache that it was attached with last, or is damaged \
             there: attach it at that host, with that cache; or end this, and give --force to lose that"
        ),
        TakeOverWord::Missing { older, has_own_log, .. } if !older.is_empty() => {
            let elsewhere = "attach it at the host that had it, with that cache; or ";
            let (elsewhere, option) = if *has_own_log { ("", "--accept-own-log") } else { (elsewhere, "--force") };
            let older = older.join(", ");
            format!(
                "{} lacks writes of '{name}' that it had acknowledged: its directory was restored from an older \
                 copy. To continue, {elsewhere}end this, and give {option}, which loses writes that only this holder had",
                visible(&older)
            )
        }
        TakeOverWord::Missing { lists, has_own_log: true, .. } => format!(
            "no answer of {}, which may have what the log of this cache has lost, if its disk has lost anything: start them \
             again; or end this, and give --accept-own-log to go on with what that log has",
            visible(&lists.join(", "))
        ),
        TakeOverWord::Missing { lists, .. } => format!(
            "no answer of {}, or a damaged copy there, and they may have what nobody else has: start them again; or end \
             this, and give --force to lose that",
            visible(&lists.join(", "))
        ),
        TakeOverWord::HomeWentBack(back) => format!(
            "home of '{name}' is older than its holders were told: {back}. Bring back the newer one; or end this, and give --force to \
             go on with this one, which gives up what it lacks, and whatever was written behind that"
        ),
        TakeOverWord::Progress { sent, of, under_way_bytes } => format!(
            "'{name}' goes home: {sent} of {of} writes were sent, and {under_way_bytes} bytes of them are on their way"
        ),
        TakeOverWord::Home(why) => format!("home: {}; it is tried again", visible(why)),
        TakeOverWord::Dropped(writes) => {
            let lost = if volume.view.entry.copies < 2 {
                "dirty ones are lost: they had no other copy, and --force gave them up"
            } else {
                "of those, acknowledged writes were written back from copies, unless --force gave them up"
            };
            format!("{}: {writes} writes in it are dropped; {lost}", why_dropped(name, place, here))
        }
    }
}

/// Why the writes of a cache are not those of the volume's last attachment, which was at `place`. An earlier state of
/// the cache knows as little of the attachments after it as the cache of another host.
fn why_dropped(name: &str, place: &str, here: &str) -> String {
    if place == here {
        format!(
            "this cache is older than the last attachment of '{name}', which it was used for: it was restored or copied"
        )
    } else if place.is_empty() {
        format!("'{name}' was attached again, or written back, after the state that this cache is in")
    } else {
        format!("'{name}' was attached at {} after the state that this cache is in", visible(place))
    }
}

/// A volume for programs; its holders by name, as far as these are known; and for how long its host has been silent, if
/// it is.
fn describe(volume: &Volume, silence: Option<Duration>) -> serde_json::Map<String, Value> {
    let entry = &volume.view.entry;
    let holder = |partition: &attach::PartitionId| {
        let known = volume.holders.iter().find(|it| it.partition == *partition);
        known.map_or_else(|| number(partition.0), |it| it.name.clone())
    };
    let fields = json!({
        "name": volume.name,
        "volume": number(volume.id.0),
        "size": entry.size,
        "copies": entry.copies,
        "attachments": entry.epoch.0,
        "attached_at": entry.owner.map(|_| visible(&volume.place).into_owned()),
        "silent_s": silence.map(|it| it.as_secs()),
        "is_taken_over": entry.is_taking,
        "holders": entry.holders.iter().map(holder).collect::<Vec<_>>(),
        "lease_s": entry.lease.as_secs_f64(),
        "gone_without": volume.gone_without.as_ref().map(gone_without),
    });
    let Value::Object(fields) = fields else { unreachable!("an object is described") };
    fields
}

/// A takeover that continued without lists, in words that do not ask what became of it: nobody knows.
fn gone_without(it: &GoneWithout) -> String {
    let GoneWithout { epoch, at, lists } = it;
    let ago = at.map(|at| format!(" {} s ago,", at.elapsed().unwrap_or_default().as_secs())).unwrap_or_default();
    let whose = if lists.is_empty() { "the cache before".to_owned() } else { visible(&lists.join(", ")).into_owned() };
    format!("attachment {} began{ago} without what {whose} had: what was promised may be lost by that", epoch.0)
}

/// Where a volume is, for people.
fn owner(volume: &Volume, silence: Option<Duration>) -> String {
    let (entry, silent) = (&volume.view.entry, silence.map(|it| format!(", silent for {} s", it.as_secs())));
    let (place, silent) = (visible(&volume.place), silent.unwrap_or_default());
    match entry.owner {
        Some(_) if entry.is_taking => format!("is taken over by {place}{silent}"),
        Some(_) => format!("attached at {place}{silent}"),
        None => "not attached".to_owned(),
    }
}
