//! Conditions on the attributes of entities, such as `Name=W1`.

use std::borrow::Cow;
use std::str::FromStr;
use thorp::design::{Entity, Value};

/// The attributes that have names here, by the types that have them. All others go by their places: only a schema knows
/// their names, and a store has none.
const NAMED: [(&str, &[&str]); 2] =
    [("IFCPROPERTYSINGLEVALUE", &["Name", "Description", "NominalValue", "Unit"]), ("IFCMATERIAL", &["Name"])];

/// The first attributes of every type of IFC that has a `GlobalId`.
const OF_ROOTS: [&str; 4] = ["GlobalId", "OwnerHistory", "Name", "Description"];

/// The characters of a `GlobalId`.
const GLOBAL_ID_CHARACTERS: usize = 22;

/// The longest operators come first: `<=` begins like `<`.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::IsNot),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Is),
    ("~", Operator::Contains),
    ("<", Operator::Below),
    (">", Operator::Above),
];

/// A condition on an attribute of an entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    attribute: Attribute,
    operator: Operator,
    value: String,
}

/// An attribute, by its place from 0 or by its name.
#[derive(Clone, Debug, PartialEq)]
enum Attribute {
    Place(usize),
    Name(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Is,
    IsNot,
    Contains,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "expected ATTRIBUTE OPERATOR VALUE without blanks, such as Name=W1 or '9>2.5'";
        let at = text.find(['=', '!', '~', '<', '>']).ok_or(shape)?;
        let (attribute, rest) = text.split_at(at);
        let found = OPERATORS.iter().find_map(|(spelling, operator)| Some((*operator, rest.strip_prefix(spelling)?)));
        let (operator, value) = found.ok_or(shape)?;
        if !matches!(operator, Operator::Is | Operator::IsNot | Operator::Contains) && value.parse::<f64>().is_err() {
            return Err(format!("'{value}' is no number: <, <=, > and >= compare numbers"));
        }
        Ok(Self { attribute: attribute.parse()?, operator, value: value.to_owned() })
    }
}

impl FromStr for Attribute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(place) = text.parse::<usize>() {
            return place.checked_sub(1).map(Self::Place).ok_or_else(|| "the places of attributes begin at 1".into());
        }
        let mut names = OF_ROOTS.iter().chain(NAMED.iter().flat_map(|(_, names)| *names));
        if names.any(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(Self::Name(text.to_owned()));
        }
        Err(format!("'{text}' is the name of no attribute that is known here: write its place in the entity, from 1"))
    }
}

impl Condition {
    /// Returns whether an entity meets it. An entity without the attribute never does.
    pub(crate) fn is_met_by(&self, entity: &Entity) -> bool {
        self.attribute.of(entity).is_some_and(|value| self.holds(value))
    }

    fn holds(&self, value: &Value) -> bool {
        match value {
            Value::Typed(_, value) => self.holds(value),
            Value::List(values) if self.operator == Operator::IsNot => values.iter().all(|value| self.holds(value)),
            Value::List(values) => values.iter().any(|value| self.holds(value)),
            value => match self.operator {
                Operator::Is => self.equals(value),
                Operator::IsNot => !self.equals(value),
                Operator::Contains => spelled(value).to_lowercase().contains(&self.value.to_lowercase()),
                Operator::Below => self.compares(value, |found, bound| found < bound),
                Operator::AtMost => self.compares(value, |found, bound| found <= bound),
                Operator::Above => self.compares(value, |found, bound| found > bound),
                Operator::AtLeast => self.compares(value, |found, bound| found >= bound),
            },
        }
    }

    #[expect(clippy::float_cmp, reason = "a condition on equal numbers means exactly these")]
    fn equals(&self, value: &Value) -> bool {
        match value {
            Value::Integer(_) | Value::Number(_) => self.compares(value, |found, asked| found == asked),
            Value::Enumeration(name) => name.eq_ignore_ascii_case(self.value.trim_matches('.')),
            value => spelled(value) == self.value,
        }
    }

    fn compares(&self, value: &Value, holds: impl Fn(f64, f64) -> bool) -> bool {
        let found = match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Number(text) => text.parse().ok(),
            _ => None,
        };
        found.zip(self.value.parse().ok()).is_some_and(|(found, asked)| holds(found, asked))
    }
}

/// A value as a condition spells it.
fn spelled(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "$".into(),
        Value::Derived => "*".into(),
        Value::Integer(number) => number.to_string().into(),
        Value::Text(text) => text.characters(),
        Value::Number(text)
        | Value::Enumeration(text)
        | Value::Binary(text)
        | Value::Name(text)
        | Value::Resource(text) => text.into(),
        Value::Ref(number) => format!("#{number}").into(),
        Value::List(_) | Value::Typed(..) => "".into(),
    }
}

impl Attribute {
    /// The value of an entity's attribute. In a complex instance places go through all of its parts.
    fn of<'a>(&self, entity: &'a Entity) -> Option<&'a Value> {
        let place = match self {
            Self::Place(place) => *place,
            Self::Name(name) => names_of(entity).iter().position(|known| known.eq_ignore_ascii_case(name))?,
        };
        entity.parts.iter().flat_map(|part| &part.values).nth(place)
    }
}

fn names_of(entity: &Entity) -> &'static [&'static str] {
    if let Some((_, names)) = NAMED.iter().find(|(kind, _)| entity.is_a(kind)) {
        return names;
    }
    match entity.parts.first().and_then(|part| part.values.first()) {
        Some(Value::Text(text)) if text.characters().chars().count() == GLOBAL_ID_CHARACTERS => &OF_ROOTS,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thorp::design::Part;

    fn window() -> Entity {
        let values = vec![
            Value::Text("2O2Fr$t4X7Zf8NOew3FLOH".into()),
            Value::Ref(12),
            Value::Text("Fenster Küche".into()),
            Value::Null,
            Value::Number("1.50".into()),
            Value::Typed("IFCLENGTHMEASURE".into(), Box::new(Value::Integer(7))),
            Value::Enumeration("T".into()),
            Value::List(vec![Value::Ref(1), Value::Ref(2)]),
        ];
        Entity { number: 1, parts: vec![Part { kind: "IFCWINDOW".into(), values }] }
    }

    #[test]
    fn conditions_are_met_or_not() {
        let met = [
            "Name=Fenster Küche",
            "name~KÜCHE",
            "3~fenster",
            "4=$",
            "5=1.5",
            "5>=1.5",
            "5<2",
            "6=7",
            "6>6.9",
            "7=T",
            "7=.t.",
            "2=#12",
            "8=#2",
            "8!=#3",
            "Name!=x",
            "GlobalId~2O2",
        ];
        let not = ["Name=Fenster", "5>1.5", "5!=1.5", "7=F", "8=#3", "8!=#2", "9=$", "3<7", "Unit=$", "Description!=$"];
        let is_met = |text: &&str| text.parse::<Condition>().unwrap().is_met_by(&window());
        assert!(met.iter().all(is_met), "{:?}", met.iter().find(|text| !is_met(text)));
        assert!(!not.iter().any(is_met), "{:?}", not.iter().find(|text| is_met(text)));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (text, why) in [
            ("Name", "expected ATTRIBUTE"),
            ("0=1", "begin at 1"),
            ("Height=1", "its place"),
            ("3<x", "compare numbers"),
            ("3!7", "expected ATTRIBUTE"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
