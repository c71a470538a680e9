//! References to entities that a file does not have. Programs that write a part of a larger file leave such.

use crate::{Entity, Extra, Value};
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// The treatment of references to entities that the file does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dangling {
    /// The file is not loaded.
    #[default]
    Refuse,
    /// `$` takes its place: the value is not given.
    Null,
    /// The reference stays, as a name that leads nowhere, and a dump writes it again.
    Keep,
}

/// The file is not loaded, because it refers to entities that it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The statement that the first reference is in.
    from: String,
    /// The entity that it refers to.
    to: u64,
    /// How many entities are missing.
    count: usize,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refers to #{}, which the file does not have", self.from, self.to)?;
        if self.count > 1 { write!(f, ", nor {} others that it refers to", self.count - 1) } else { Ok(()) }
    }
}

impl std::error::Error for Missing {}

/// Replaces references that lead to none of the entities. References to other files, which a `REFERENCE` section lists,
/// become names, and for the rest `dangling` decides. Returns the numbers of the missing entities.
pub(super) fn settle(
    entities: &mut [Entity],
    extras: &mut [Extra],
    dangling: Dangling,
) -> Result<BTreeSet<u64>, Missing> {
    let here: HashSet<u64> = entities.iter().map(|entity| entity.number).collect();
    let elsewhere = names_of_others(extras);
    let (mut missing, mut first) = (BTreeSet::new(), None);
    let mut settle_one = |value: &mut Value, from: &dyn Fn() -> String| {
        let Value::Ref(to) = *value else { return };
        if here.contains(&to) {
            return;
        }
        let is_missing = !elsewhere.contains(&to);
        if is_missing {
            missing.insert(to);
            first.get_or_insert_with(|| (from(), to));
        }
        let is_kept = !is_missing || dangling != Dangling::Null;
        *value = if is_kept { Value::Name(format!("#{to}")) } else { Value::Null };
    };
    for entity in entities {
        let number = entity.number;
        entity.for_each_value_mut(&mut |value| settle_one(value, &|| format!("#{number}")));
    }
    for extra in extras {
        let from = match extra {
            Extra::Anchor { name, .. } => format!("the anchor <{name}>"),
            _ => "the beginning of a DATA section".to_owned(),
        };
        extra.for_each_value_mut(&mut |value| settle_one(value, &|| from.clone()));
    }
    match first {
        Some((from, to)) if dangling == Dangling::Refuse => Err(Missing { from, to, count: missing.len() }),
        _ => Ok(missing),
    }
}

/// The numbers that a `REFERENCE` section gives to entities of other files.
fn names_of_others(extras: &[Extra]) -> HashSet<u64> {
    let number = |extra: &Extra| match extra {
        Extra::Reference { name, .. } => name.strip_prefix('#')?.parse().ok(),
        _ => None,
    };
    extras.iter().filter_map(number).collect()
}
