//! The home of the sites of a space, in a store of several nodes: the node that has their chunks, and its term.
//!
//! ```text
//!   none --first site, or the node opens it--> n1, term a --n1 starts again--> n1, term b --handed over--> n2, term c
//! ```
//! A node draws a term when it takes the sites up. It changes records only in transactions that compare the home with
//! its own (**OneHome**). So no change of an earlier term comes later: neither that of the node before, nor that of a
//! process that was killed with a commit on its way.

use crate::record::{ROOT, SiteRecord};
use objects::{Anywhere, Result, Tx};
use serde::{Deserialize, Serialize};

/// The name of the record in its space.
const NAME: &str = "site-home";

/// The home of the sites of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteHome {
    /// The number of the node.
    pub(crate) node: u16,
    /// The term of its file server, drawn at random.
    pub(crate) term: u64,
}

impl SiteHome {
    /// The home of the transaction's space, if it is on record.
    pub(crate) fn find(tx: &mut Tx) -> Result<Option<Self>> {
        let home = tx.root::<Self>(NAME)?;
        home.map(|home| tx.get(home)).transpose()
    }

    /// Puts it on record.
    pub(crate) fn set(self, tx: &mut Tx) -> Result<()> {
        if let Some(home) = tx.root::<Self>(NAME)? {
            return tx.put(home, &self);
        }
        let home = tx.create(Anywhere, &self)?;
        tx.set_root(NAME, home)
    }

    /// Returns whether this is the home of the transaction's space. It becomes so if there is none and the space has no
    /// sites yet.
    pub(crate) fn is_home(self, tx: &mut Tx) -> Result<bool> {
        match Self::find(tx)? {
            Some(home) => Ok(home == self),
            None if has_sites(tx)? => Ok(false),
            None => self.set(tx).map(|()| true),
        }
    }
}

/// Whether the transaction's space has sites.
pub(crate) fn has_sites(tx: &mut Tx) -> Result<bool> {
    let sites = tx.find_map::<String, SiteRecord>(ROOT)?;
    Ok(sites.map(|sites| sites.iter().next(tx)).transpose()?.flatten().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FilesError;
    use crate::record::SiteName;
    use crate::records::Records;
    use objects::Db;
    use spread::SiteSettings;

    const BEFORE: SiteHome = SiteHome { node: 1, term: 10 };
    const NEXT: SiteHome = SiteHome { node: 2, term: 20 };

    fn create(db: &Db, home: Option<SiteHome>, name: &str) -> Result<(), FilesError> {
        Records::of_home(db.clone(), home).create(&SiteName::parse(name).unwrap(), SiteSettings::default())
    }

    /// The home before, and an earlier term of the same node, change nothing any longer (rule OneHome).
    #[test]
    fn only_the_home_in_its_term_changes_records() {
        let db = Db::in_memory().unwrap();
        create(&db, Some(BEFORE), "one").unwrap();
        assert_eq!(db.transact(SiteHome::find).unwrap(), Some(BEFORE), "the first site has made it");
        db.transact(|tx| NEXT.set(tx)).unwrap();
        for late in [BEFORE, SiteHome { term: 19, ..NEXT }, SiteHome { node: 1, ..NEXT }] {
            assert!(matches!(create(&db, Some(late), "late"), Err(FilesError::OtherHome)), "{late:?}");
            let records = Records::of_home(db.clone(), Some(late));
            let removed = records.remove(&SiteName::parse("one").unwrap());
            assert!(matches!(removed, Err(FilesError::OtherHome)), "{removed:?}");
        }
        create(&db, Some(NEXT), "two").unwrap();
        // Without the rule, it comes late.
        create(&db, None, "late").unwrap();
    }

    /// Sites without a home are those of a store of one process that became a node's: they are taken up first.
    #[test]
    fn a_home_begins_with_the_first_site_or_is_taken() {
        let db = Db::in_memory().unwrap();
        create(&db, None, "one").unwrap();
        assert!(matches!(create(&db, Some(BEFORE), "two"), Err(FilesError::OtherHome)));
        db.transact(|tx| BEFORE.set(tx)).unwrap();
        create(&db, Some(BEFORE), "two").unwrap();
    }
}
