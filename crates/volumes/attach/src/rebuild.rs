//! A registry that was lost, or was restored from an older copy, made again: what homes, holders and caches say of each
//! volume, and the entry that comes of it ([`machines::Findings`] has the rules).

use crate::attached::cache_of;
use crate::far::{FarError, FarHome, FarHomes};
use crate::holder::held_volumes;
use machines::{Epoch, Findings, HeldVolume, PartitionId, VolumeId};
use net::Runtime;
use registry::{HolderName, HomeNode, RegistryError, StoreRegistry, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use vfs::FileError;

/// A holder answers within this time, or is not there.
const HOLDER_WITHIN: Duration = Duration::from_secs(4);

/// The places to ask.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The addresses of holders, beside those that the registry and the homes know.
    pub holders: Vec<String>,
    /// The directories of caches at this host.
    pub caches: Vec<PathBuf>,
}

/// A holder that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedHolder {
    /// Where it was asked.
    pub address: String,
    /// Its name and failure domain, if they are known.
    pub name: Option<HolderName>,
    /// Its partition and what it knows; nothing if it did not answer.
    pub held: Option<(PartitionId, Vec<HeldVolume>)>,
}

/// A cache, as its directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFound {
    /// The directory.
    pub dir: PathBuf,
    /// The volume that it is of.
    pub volume: VolumeId,
    /// Its last attachment.
    pub epoch: Epoch,
}

/// A volume that was found at home.
#[derive(Clone, Debug)]
pub struct FoundVolume {
    /// Its number.
    pub id: VolumeId,
    /// The node that has its home.
    pub home: HomeNode,
    /// As home has kept it, or else as the registry has it.
    pub known: Option<Volume>,
    /// The words of all.
    pub findings: Findings,
}

/// A node of the store, and the homes that it has.
pub type AskedHomes = (HomeNode, FarHomes);

/// A node of the store that could not be asked for its homes, and why.
pub type UnaskedHomes = (HomeNode, FarError);

/// The findings about all volumes of a store.
#[derive(Debug)]
pub struct Found {
    /// The volumes, by their numbers.
    pub volumes: Vec<FoundVolume>,
    /// The nodes of the store whose homes could not be asked, and why.
    pub unasked: Vec<UnaskedHomes>,
    /// The homes that several nodes have, which are none until all but one are removed.
    pub doubled: Vec<(VolumeId, Vec<HomeNode>)>,
    /// The holders.
    pub holders: Vec<AskedHolder>,
    /// The caches.
    pub caches: Vec<CacheFound>,
}

/// Why it is not known what there is.
#[derive(Debug)]
pub enum FindError {
    /// The registry.
    Registry(RegistryError),
    /// Homes.
    Home(FarError),
    /// A directory is no cache, or cannot be read.
    Cache(FileError),
    /// There is no cache in this directory.
    NoCache(PathBuf),
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(error) => error.fmt(f),
            Self::Home(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
            Self::NoCache(dir) => write!(f, "{} is not a cache of a volume: give the directory of one", dir.display()),
        }
    }
}

impl std::error::Error for FindError {}

impl From<RegistryError> for FindError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl From<FarError> for FindError {
    fn from(error: FarError) -> Self {
        Self::Home(error)
    }
}

impl Found {
    /// Asks homes at the nodes of the store, all known holders, and caches, and changes nothing.
    ///
    /// # Errors
    /// The registry cannot be asked, nor any homes, or a directory is not a cache.
    pub fn find(registry: &StoreRegistry, places: &Places, runtime: &Runtime) -> Result<Self, FindError> {
        let caches = places.caches.iter().map(|dir| find_cache(dir)).collect::<Result<Vec<_>, _>>()?;
        let standing: BTreeMap<_, _> = registry.list()?.into_iter().map(|it| (it.id, it)).collect();
        let (asked, unasked) = ask_homes(registry.nodes()?, runtime)?;
        let mut at: BTreeMap<VolumeId, Vec<HomeNode>> = BTreeMap::new();
        for (node, homes) in &asked {
            for home in homes.list().iter().filter(|home| home.is_whole) {
                at.entry(home.volume).or_default().push(node.clone());
            }
        }
        let (mut volumes, mut doubled) = (Vec::new(), Vec::new());
        for (id, mut nodes) in at {
            match nodes.pop() {
                Some(home) if nodes.is_empty() => volumes.push(find_volume(home, id, standing.get(&id), runtime)?),
                home => doubled.push((id, nodes.into_iter().chain(home).collect())),
            }
        }
        let mut addresses: BTreeMap<String, Option<HolderName>> =
            places.holders.iter().map(|address| (address.clone(), None)).collect();
        let members = registry.enlisted()?.into_iter().map(|it| HolderName::from(&it.registrant));
        let known = volumes.iter().filter_map(|it| it.known.as_ref()).flat_map(|it| it.holders.iter().cloned());
        addresses.extend(known.chain(members).map(|it| (it.address.clone(), Some(it))));
        let holders = ask_holders(addresses, runtime);
        for volume in &mut volumes {
            volume.hear(&holders, &caches);
        }
        Ok(Self { volumes, unasked, doubled, holders, caches })
    }
}

impl FoundVolume {
    fn hear(&mut self, holders: &[AskedHolder], caches: &[CacheFound]) {
        let answered = holders.iter().filter_map(|it| it.held.as_ref());
        let of_it = answered.flat_map(|(partition, held)| held.iter().map(|it| (*partition, *it)));
        self.findings.held = of_it.filter(|(_, held)| held.volume == self.id).collect();
        // One may be reached at two addresses.
        self.findings.held.sort_unstable_by_key(|(partition, _)| *partition);
        self.findings.held.dedup_by_key(|(partition, _)| *partition);
        let epochs = caches.iter().filter(|it| it.volume == self.id).map(|it| it.epoch);
        self.findings.cache_epoch = epochs.max().unwrap_or(Epoch(0));
    }

    /// The entry that should be registered under this name, of a volume with this many copies and this lease if nobody
    /// knows better; and the revision of the one in whose place it comes.
    pub fn rebuild(&self, name: &str, copies: u8, lease: Duration, holders: &[AskedHolder]) -> (Volume, Option<u64>) {
        let view = self.findings.rebuild(copies, lease);
        let mut names: Vec<HolderName> = self.known.iter().flat_map(|it| it.holders.clone()).collect();
        for AskedHolder { address, name, held } in holders {
            let Some((partition, _)) = held else { continue };
            names.retain(|it| it.partition != *partition);
            let known = name.as_ref().map(|it| (it.name.clone(), it.domain.clone()));
            let (name, domain) = known.unwrap_or_else(|| (format!("{:016x}", partition.0), String::new()));
            names.push(HolderName { partition: *partition, name, address: address.clone(), domain });
        }
        names.retain(|it| view.entry.holders.contains(&it.partition));
        let place = self.known.as_ref().map(|it| it.place.clone()).unwrap_or_default();
        let volume = Volume {
            id: self.id,
            name: name.to_owned(),
            view,
            place,
            holders: names,
            said_at: None,
            gone_without: None,
        };
        (volume, self.findings.standing.as_ref().map(|it| it.revision))
    }
}

fn find_cache(dir: &Path) -> Result<CacheFound, FindError> {
    let found = cache_of(dir).map_err(FindError::Cache)?;
    let (volume, epoch) = found.ok_or_else(|| FindError::NoCache(dir.to_owned()))?;
    Ok(CacheFound { dir: dir.to_owned(), volume, epoch })
}

/// The homes at each node, and the nodes that could not be asked. A node that was started without homes has none.
///
/// # Errors
/// No node has homes that could be asked for.
pub fn ask_homes(nodes: Vec<HomeNode>, runtime: &Runtime) -> Result<(Vec<AskedHomes>, Vec<UnaskedHomes>), FarError> {
    let (mut asked, mut unasked, mut without) = (Vec::new(), Vec::new(), None);
    // All at once: each node that is away is waited for to the end.
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = |node: &HomeNode| FarHomes::connect(&node.address, runtime);
        let asking: Vec<_> = nodes.iter().map(|node| scope.spawn(move || ask(node))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    for (node, answer) in nodes.into_iter().zip(answers) {
        match answer {
            Ok(homes) => asked.push((node, homes)),
            Err(error @ FarError::NoHomes(..)) => without = Some(error),
            Err(error) => unasked.push((node, error)),
        }
    }
    if asked.is_empty() {
        let away = unasked.pop().map(|(_, error)| error);
        return away.or(without).map_or_else(|| Ok((asked, unasked)), Err);
    }
    Ok((asked, unasked))
}

fn find_volume(
    home: HomeNode,
    id: VolumeId,
    standing: Option<&Volume>,
    runtime: &Runtime,
) -> Result<FoundVolume, FarError> {
    let far = FarHome::connect(&home.address, id, runtime)?;
    let (opened, kept) = (far.opened()?, far.kept()?);
    let findings = Findings {
        size: opened.size,
        epoch: opened.epoch,
        owner: opened.owner,
        mark: opened.mark,
        kept: kept.as_ref().map(|it| it.view.clone()),
        standing: standing.map(|it| it.view.clone()),
        held: Vec::new(),
        cache_epoch: Epoch(0),
    };
    Ok(FoundVolume { id, home, known: kept.or_else(|| standing.cloned()), findings })
}

/// Asks all at once: most of those that do not answer are waited for to the end.
fn ask_holders(addresses: BTreeMap<String, Option<HolderName>>, runtime: &Runtime) -> Vec<AskedHolder> {
    let asked: Vec<_> = addresses
        .into_iter()
        .map(|(address, name)| {
            let (runtime, at) = (runtime.clone(), address.clone());
            (address, name, thread::spawn(move || held_volumes(&at, &runtime, HOLDER_WITHIN)))
        })
        .collect();
    let mut seen = BTreeSet::new();
    let answer = |(address, name, asking): (String, Option<HolderName>, thread::JoinHandle<_>)| {
        // One that panicked has not answered.
        AskedHolder { address, name, held: asking.join().unwrap_or_default() }
    };
    // A holder under an old address of another one is told once.
    asked
        .into_iter()
        .map(answer)
        .filter(|it| it.held.as_ref().is_none_or(|(partition, _)| seen.insert(*partition)))
        .collect()
}
