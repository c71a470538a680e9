//! The content of a statement: entities, their parts and their values. A design has many: their names are short in the
//! store.

use crate::text::Text;
use serde::{Deserialize, Serialize};

/// One entity instance: a name and its parts.
///
/// `R` is what a reference is: the number of the entity in a file, or something that a program puts in its place with
/// [`Entity::try_map_refs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entity<R = u64> {
    /// The entity's number, without its `#`.
    #[serde(rename = "n")]
    pub number: u64,
    /// Its parts: one for a simple instance, `#1=DOOR(…);`, and any other number for a complex one, `#1=(A(…)B(…));`.
    #[serde(rename = "p")]
    pub parts: Vec<Part<R>>,
}

/// A type with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part<R = u64> {
    /// The type's name, in upper case as in the file.
    #[serde(rename = "k")]
    pub kind: String,
    /// The parameters, in the order of the schema.
    #[serde(rename = "v")]
    pub values: Vec<Value<R>>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value<R = u64> {
    /// `$`: not given.
    #[serde(rename = "$")]
    Null,
    /// `*`: derived by the schema.
    #[serde(rename = "*")]
    Derived,
    /// A whole number.
    #[serde(rename = "i")]
    Integer(i64),
    /// Any other number, in the text of the file: a number that is read and written again must not change.
    #[serde(rename = "n")]
    Number(String),
    /// `'…'`: characters, and their spelling in the file.
    #[serde(rename = "t")]
    Text(Text),
    /// `.NAME.`, without its points.
    #[serde(rename = "e")]
    Enumeration(String),
    /// `"…"`: bits in hexadecimal digits, the first of which counts the unused bits.
    #[serde(rename = "b")]
    Binary(String),
    /// `#12`: another entity.
    #[serde(rename = "r")]
    Ref(R),
    /// `(…)`: values in order.
    #[serde(rename = "l")]
    List(Vec<Value<R>>),
    /// `NAME(…)`: a value that names its type.
    #[serde(rename = "y")]
    Typed(String, Box<Value<R>>),
    /// A name that no entity of the file has: `@1` or `#10` from a `REFERENCE` section, which are elsewhere; `#PI`
    /// or `@PI` for a constant of the schema; `#99` for an entity that is missing.
    #[serde(rename = "m")]
    Name(String),
    /// `<…>`: a resource by its URI, without its angle brackets.
    #[serde(rename = "u")]
    Resource(String),
}

impl<R> Entity<R> {
    /// The type of a simple instance, or the first of a complex one's; empty for a complex one without parts.
    pub fn kind(&self) -> &str {
        self.parts.first().map_or("", |part| &part.kind)
    }

    /// Whether any of the entity's parts is of this type, in upper or lower case. Subtypes are types of their own.
    pub fn is_a(&self, kind: &str) -> bool {
        self.parts.iter().any(|part| part.kind.eq_ignore_ascii_case(kind))
    }

    /// Calls `visit` with every reference, in the order of the text.
    pub fn for_each_ref(&self, mut visit: impl FnMut(&R)) {
        for value in self.parts.iter().flat_map(|part| &part.values) {
            value.for_each_ref(&mut visit);
        }
    }

    /// Calls `visit` with every value, those inside of others first.
    pub fn for_each_value_mut(&mut self, visit: &mut impl FnMut(&mut Value<R>)) {
        self.parts.iter_mut().flat_map(|part| &mut part.values).for_each(|value| value.for_each_mut(visit));
    }

    /// The same entity with every reference replaced, or the first error.
    pub fn try_map_refs<S, E>(self, mut map: impl FnMut(R) -> Result<S, E>) -> Result<Entity<S>, E> {
        let mut part = |part: Part<R>| {
            let values = part.values.into_iter().map(|value| value.try_map_refs(&mut map)).collect::<Result<_, E>>()?;
            Ok(Part { kind: part.kind, values })
        };
        let parts = self.parts.into_iter().map(&mut part).collect::<Result<_, E>>()?;
        Ok(Entity { number: self.number, parts })
    }
}

impl<R> Value<R> {
    fn for_each_ref(&self, visit: &mut impl FnMut(&R)) {
        match self {
            Self::Ref(to) => visit(to),
            Self::List(values) => values.iter().for_each(|value| value.for_each_ref(visit)),
            Self::Typed(_, value) => value.for_each_ref(visit),
            _ => {}
        }
    }

    pub(crate) fn for_each_mut(&mut self, visit: &mut impl FnMut(&mut Self)) {
        match self {
            Self::List(values) => values.iter_mut().for_each(|value| value.for_each_mut(visit)),
            Self::Typed(_, value) => value.for_each_mut(visit),
            _ => {}
        }
        visit(self);
    }

    fn try_map_refs<S, E>(self, map: &mut impl FnMut(R) -> Result<S, E>) -> Result<Value<S>, E> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Derived => Value::Derived,
            Self::Integer(number) => Value::Integer(number),
            Self::Number(text) => Value::Number(text),
            Self::Text(text) => Value::Text(text),
            Self::Enumeration(name) => Value::Enumeration(name),
            Self::Binary(digits) => Value::Binary(digits),
            Self::Ref(to) => Value::Ref(map(to)?),
            Self::List(values) => {
                Value::List(values.into_iter().map(|value| value.try_map_refs(map)).collect::<Result<_, E>>()?)
            }
            Self::Typed(kind, value) => Value::Typed(kind, Box::new(value.try_map_refs(map)?)),
            Self::Name(name) => Value::Name(name),
            Self::Resource(resource) => Value::Resource(resource),
        })
    }
}
