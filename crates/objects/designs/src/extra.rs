//! Statements that are neither of the header nor entities.

use crate::value::Value;
use serde::{Deserialize, Serialize};

/// A statement that is neither of the header nor an entity: of an `ANCHOR`, `REFERENCE` or `SIGNATURE` section, which
/// edition 3 of ISO 10303-21 has, or the beginning of a `DATA` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Extra {
    /// `<name>=value{tag:value}`: a value or an entity that other files can refer to.
    #[serde(rename = "a")]
    Anchor {
        /// The name, without its angle brackets.
        #[serde(rename = "n")]
        name: String,
        /// The value or entity that it names.
        #[serde(rename = "v")]
        value: Value,
        /// Further values, by the names of their tags.
        #[serde(rename = "t")]
        tags: Vec<(String, Value)>,
    },
    /// `#10=<other.stp#name>`: an entity or a value of another file.
    #[serde(rename = "r")]
    Reference {
        /// The name in this file: `#10` or `@10`.
        #[serde(rename = "n")]
        name: String,
        /// The anchor in the other file.
        #[serde(rename = "u")]
        resource: String,
    },
    /// `DATA('name',('SCHEMA'))`: the parameters of a data section.
    #[serde(rename = "d")]
    Data(Vec<Value>),
    /// All between `SIGNATURE` and its `ENDSEC;`.
    #[serde(rename = "s")]
    Signature(String),
}

impl Extra {
    /// The place of the statement's section in a file.
    pub fn order(&self) -> u8 {
        match self {
            Self::Anchor { .. } => 0,
            Self::Reference { .. } => 1,
            Self::Data(_) => 2,
            Self::Signature(_) => 3,
        }
    }

    /// Calls `visit` with every value, those inside of others first.
    pub fn for_each_value_mut(&mut self, visit: &mut impl FnMut(&mut Value)) {
        match self {
            Self::Anchor { value, tags, .. } => {
                value.for_each_mut(visit);
                for (_, value) in tags {
                    value.for_each_mut(visit);
                }
            }
            Self::Data(parameters) => parameters.iter_mut().for_each(|value| value.for_each_mut(visit)),
            Self::Reference { .. } | Self::Signature(_) => {}
        }
    }
}
