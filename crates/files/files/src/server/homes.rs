//! Where the sites of each space are, as a node of a store of several knows it.
//!
//! A space's home is on record in the space (`crate::home`). It should be at the node that has the shard of the space's
//! first page, where its names begin: there the sites go with the shard, and there they are made.

use crate::error::FilesError;
use crate::home::{SiteHome, has_sites};
use crate::line::lock;
use crate::records::draw;
use objects::Db;
use spread::server_work::Place;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};
use types::{MAIN_SPACE, NodeId, PageId, Shard, Sharding};

/// The space that every store has, and that needs no catalog to be found.
const MAIN_SPACE_NAME: &str = "main";

/// The shards and nodes of a store of several, as one of its nodes knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// How pages are spread over shards.
    pub sharding: Sharding,
    /// The places of the shards that are known.
    pub shards: BTreeMap<Shard, ShardAt>,
    /// The nodes, by their numbers.
    pub nodes: BTreeMap<NodeId, NodeAt>,
}

/// The place of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardAt {
    /// The node that has it.
    pub node: NodeId,
    /// The node that it moves to, if that is known here.
    pub to: Option<NodeId>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAt {
    /// Its name.
    pub name: String,
    /// Where it is, as far as that is known.
    pub address: String,
    /// Whether it is this node, or can be reached.
    pub is_up: bool,
}

impl Places {
    /// The shard where a space begins.
    pub(super) fn shard_of(&self, space: u32) -> Shard {
        self.sharding.of(PageId::new(space, 0))
    }

    /// The node that should have the sites of a space.
    pub(super) fn home_of(&self, space: u32) -> Option<NodeId> {
        self.shards.get(&self.shard_of(space)).map(|at| at.to.unwrap_or(at.node))
    }

    /// The node that has the page where a space begins, if it cannot be reached.
    pub(super) fn missed(&self, space: u32) -> Option<NodeId> {
        let at = self.shards.get(&self.shard_of(space))?;
        Some(at.node).filter(|node| !self.is_up(*node))
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|at| at.is_up)
    }

    pub(super) fn address(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(&node).map(|at| at.address.as_str()).filter(|address| !address.is_empty())
    }

    /// The place of sites that a node has, or should have.
    fn at(&self, node: NodeId, space: &str) -> Place {
        match self.address(node).filter(|_| self.is_up(node)) {
            Some(address) => Place::At(address.to_owned()),
            None => Place::Away(self.away(node, space)),
        }
    }

    fn away(&self, node: NodeId, space: &str) -> String {
        let name = self.nodes.get(&node).map_or_else(|| format!("{}", node.0), |at| at.name.clone());
        format!("node '{name}' is away, which has the sites of space '{space}': start it")
    }
}

/// The home of a space, as it is on record.
pub(super) fn on_record(db: &Db, space: &str) -> Result<Option<SiteHome>, FilesError> {
    Ok(db.space(space)?.transact(SiteHome::find)?)
}

/// The homes.
#[derive(Debug)]
pub(super) struct Homes {
    pub(super) own: NodeId,
    places: Mutex<Option<Places>>,
    db: OnceLock<Db>,
    /// The terms in which this process has spaces.
    terms: Mutex<HashMap<String, u64>>,
    /// The numbers of spaces, which stay.
    numbers: Mutex<HashMap<String, u32>>,
}

impl Homes {
    pub(super) fn new(own: NodeId) -> Self {
        let (places, db) = (Mutex::default(), OnceLock::new());
        Self { own, places, db, terms: Mutex::default(), numbers: Mutex::default() }
    }

    pub(super) fn set_places(&self, places: Places) {
        *lock(&self.places) = Some(places);
    }

    pub(super) fn places(&self) -> Option<Places> {
        lock(&self.places).clone()
    }

    /// The store's records, once the node serves them.
    pub(super) fn db(&self) -> Option<&Db> {
        self.db.get()
    }

    pub(super) fn set_db(&self, db: Db) {
        let _ = self.db.set(db);
    }

    /// All spaces that may have sites, by number, and whether these are all: while the node of the catalog is away,
    /// they are those that were known before.
    pub(super) fn spaces(&self) -> (BTreeMap<u32, String>, bool) {
        let all = self.db().and_then(|db| db.spaces().ok());
        let are_all = all.is_some();
        let all = all.unwrap_or_default();
        let mut numbers = lock(&self.numbers);
        numbers.insert(MAIN_SPACE_NAME.to_owned(), MAIN_SPACE);
        numbers.extend(all.into_iter().filter(|space| !space.is_of_registry()).map(|space| (space.name, space.number)));
        (numbers.iter().map(|(name, number)| (*number, name.clone())).collect(), are_all)
    }

    /// The number of a space; none if there is no such space.
    pub(super) fn number(&self, db: &Db, space: &str) -> Result<Option<u32>, FilesError> {
        if space == MAIN_SPACE_NAME {
            return Ok(Some(MAIN_SPACE));
        }
        if let Some(number) = lock(&self.numbers).get(space) {
            return Ok(Some(*number));
        }
        let number = db.spaces()?.into_iter().find(|it| it.name == space && !it.is_of_registry()).map(|it| it.number);
        if let Some(number) = number {
            lock(&self.numbers).insert(space.to_owned(), number);
        }
        Ok(number)
    }

    /// The home of a space in this process, with a term that is drawn if it has none yet.
    pub(super) fn own_home(&self, space: &str) -> Result<SiteHome, FilesError> {
        if let Some(term) = lock(&self.terms).get(space) {
            return Ok(SiteHome { node: self.own.0, term: *term });
        }
        self.next_home(space)
    }

    /// The home of a space in this process, with another term from now on.
    pub(super) fn next_home(&self, space: &str) -> Result<SiteHome, FilesError> {
        let term = draw()?;
        lock(&self.terms).insert(space.to_owned(), term);
        Ok(SiteHome { node: self.own.0, term })
    }

    /// Whether this process is, or was, the home of a space.
    pub(super) fn has_term(&self, space: &str) -> bool {
        lock(&self.terms).contains_key(space)
    }

    /// Whether a home is this process's.
    pub(super) fn is_own(&self, space: &str, home: SiteHome) -> bool {
        home.node == self.own.0 && lock(&self.terms).get(space) == Some(&home.term)
    }

    /// Where the sites of a space are, or would be made.
    pub(super) fn locate(&self, space: &str) -> Place {
        self.look(space).unwrap_or_else(|error| {
            Place::Away(format!("where the sites of space '{space}' are cannot be found: {error}"))
        })
    }

    fn look(&self, space: &str) -> Result<Place, FilesError> {
        let (Some(db), Some(places)) = (self.db(), self.places()) else {
            return Ok(Place::Away("the node is not open yet".to_owned()));
        };
        // A space that is missing is made here with its first site, and goes to the node of its shard.
        let Some(number) = self.number(db, space)? else { return Ok(Place::Here) };
        if let Some(missed) = places.missed(number) {
            return Ok(Place::Away(places.away(missed, space)));
        }
        // The file server has those that it has taken up.
        let not_open = || Place::Away(format!("the sites of space '{space}' are not open yet"));
        let (home, has_sites) = db.space(space)?.transact(|tx| Ok((SiteHome::find(tx)?, has_sites(tx)?)))?;
        Ok(match home {
            Some(home) if home.node == self.own.0 => not_open(),
            Some(home) => places.at(NodeId(home.node), space),
            None if has_sites && places.home_of(number) == Some(self.own) => not_open(),
            None => match places.home_of(number) {
                Some(node) if node != self.own => places.at(node, space),
                _ => Place::Here,
            },
        })
    }

    /// The term in which this node has a space that another node wants.
    ///
    /// # Errors
    /// The space stays here.
    pub(super) fn hand_over(&self, space: &str, to: NodeId) -> Result<u64, FilesError> {
        let stays = || FilesError::Stays(space.to_owned());
        let (db, places) = self.db().zip(self.places()).ok_or_else(stays)?;
        let number = self.number(db, space)?.ok_or_else(stays)?;
        let goes = to != self.own && places.home_of(number) == Some(to);
        if goes { self.own_home(space).map(|home| home.term) } else { Err(stays()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::{NonZeroU16, NonZeroU32};

    const OWN: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    /// A store of two nodes, of which the other one is at `b:1`. All shards are at `node`, and may move.
    fn places(node: NodeId, to: Option<NodeId>, other_is_up: bool) -> Places {
        let sharding = Sharding::new(NonZeroU16::new(4).unwrap(), NonZeroU32::MIN);
        let at =
            |name: &str, address: &str, is_up| NodeAt { name: name.to_owned(), address: address.to_owned(), is_up };
        let nodes = [(OWN, at("n1", "a:1", true)), (OTHER, at("n2", "b:1", other_is_up))];
        let shards = (0..4).map(|shard| (Shard(shard), ShardAt { node, to })).collect();
        Places { sharding, shards, nodes: nodes.into() }
    }

    fn homes() -> Homes {
        let homes = Homes::new(OWN);
        homes.set_db(Db::in_memory().unwrap());
        homes
    }

    fn locate(homes: &Homes, places: Places) -> Place {
        homes.set_places(places);
        homes.locate("main")
    }

    fn away(place: Place) -> String {
        if let Place::Away(why) = place { why } else { panic!("{place:?}") }
    }

    #[test]
    fn sites_are_at_their_home_or_made_where_their_shard_is() {
        assert!(away(Homes::new(OWN).locate("main")).contains("not open yet"));
        let homes = homes();
        assert_eq!(locate(&homes, places(OWN, None, true)), Place::Here);
        assert_eq!(locate(&homes, places(OTHER, None, true)), Place::At("b:1".to_owned()));
        assert_eq!(locate(&homes, places(OTHER, Some(OWN), true)), Place::Here);
        assert_eq!(locate(&homes, places(OWN, Some(OTHER), true)), Place::At("b:1".to_owned()));
        let missed = away(locate(&homes, places(OTHER, None, false)));
        assert!(missed.contains("node 'n2' is away, which has the sites of space 'main'"), "{missed}");
        assert_eq!(homes.locate("missing"), Place::Here, "it is made with its first site");
        // The record counts.
        let db = homes.db().unwrap();
        db.transact(|tx| SiteHome { node: OTHER.0, term: 5 }.set(tx)).unwrap();
        assert_eq!(locate(&homes, places(OWN, None, true)), Place::At("b:1".to_owned()));
        assert!(away(locate(&homes, places(OWN, None, false))).contains("node 'n2' is away"));
        db.transact(|tx| SiteHome { node: OWN.0, term: 5 }.set(tx)).unwrap();
        assert!(away(locate(&homes, places(OWN, None, true))).contains("not open yet"), "it is to be taken up first");
    }

    #[test]
    fn a_space_is_handed_over_to_the_node_of_its_shard_and_to_no_other() {
        let homes = homes();
        let hand_over = |places, to| {
            homes.set_places(places);
            homes.hand_over("main", to)
        };
        for stays in [hand_over(places(OWN, None, true), OTHER), hand_over(places(OTHER, Some(OWN), true), OWN)] {
            assert!(matches!(&stays, Err(FilesError::Stays(space)) if space == "main"), "{stays:?}");
        }
        assert!(matches!(homes.hand_over("missing", OTHER), Err(FilesError::Stays(_))));
        let term = hand_over(places(OWN, Some(OTHER), true), OTHER).unwrap();
        assert_eq!(homes.own_home("main").unwrap().term, term);
        assert_ne!(homes.next_home("main").unwrap().term, term);
    }
}
