//! The work of engineers on a design: they walk to everything that an element is made of, and change a property of it
//! now and then.

use crate::random::Random;
use designs::files::RELATIONS;
use designs::{Design, Link, Object, Text, Value};
use objects::{AsyncTx, Ref, Result};
use std::collections::HashSet;

#[cfg(test)]
mod tests;

/// The counts of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Entities, each once.
    pub entities: u64,
    /// The sum of their numbers: two walks with the same count and sum came by the same.
    pub numbers: u64,
    /// The properties among them.
    pub properties: Vec<Ref<Object>>,
}

/// Draws one of the design's windows and doors; of a design without any, one of the entities that nothing refers to.
/// `None` for a design without entities.
pub async fn pick(tx: &mut AsyncTx, design: &Design, random: &mut Random) -> Result<Option<Ref<Object>>> {
    let elements = design.elements(tx).await?;
    Ok(if elements.is_empty() { None } else { Some(elements[random.below(elements.len())]) })
}

/// Walks to everything that an element is made of: along its references, and from each entity by way of its relations
/// to what they say that it has.
pub async fn walk(tx: &mut AsyncTx, element: Ref<Object>) -> Result<Walk> {
    let (mut walk, mut seen, mut next) = (Walk::default(), HashSet::from([element]), vec![element]);
    while let Some(object) = next.pop() {
        let Object { entity, relations } = tx.get(object).await?;
        walk.entities += 1;
        walk.numbers += entity.number;
        if entity.is_a("IFCPROPERTYSINGLEVALUE") {
            walk.properties.push(object);
        }
        let mut onward = Vec::new();
        match RELATIONS.iter().find(|(kind, ..)| *kind == entity.kind()) {
            // Its owners are where the walk came from, and others of their kind.
            Some(&(_, _, having)) => links_of(entity.parts[0].values.get(having), &mut onward),
            None => entity.for_each_ref(|link| onward.push(link.object)),
        }
        onward.extend(relations.iter().map(|link| link.object));
        onward.retain(|object| seen.insert(*object));
        tx.read_ahead(onward.iter().map(|object| object.id()))?;
        next.extend(onward);
    }
    Ok(walk)
}

fn links_of(value: Option<&Value<Link>>, links: &mut Vec<Ref<Object>>) {
    match value {
        Some(Value::Ref(link)) => links.push(link.object),
        Some(Value::List(values)) => values.iter().for_each(|value| links_of(Some(value), links)),
        _ => {}
    }
}

/// Changes one of the properties that a walk came by: a whole number or a number grows by one, a truth value turns, a
/// text gets a mark of its revision. Returns the property, or `None` if the walk came by none.
pub async fn change(tx: &mut AsyncTx, walk: &Walk, random: &mut Random) -> Result<Option<Ref<Object>>> {
    if walk.properties.is_empty() {
        return Ok(None);
    }
    let property = walk.properties[random.below(walk.properties.len())];
    let mut object = tx.get(property).await?;
    if let Some(value) = object.entity.parts[0].values.get_mut(NOMINAL_VALUE) {
        revise(value);
    }
    tx.put(property, &object).await?;
    Ok(Some(property))
}

/// The parameter of a property that is its value.
const NOMINAL_VALUE: usize = 2;

/// The words between a text and the number of its revision.
const REVISION: &str = " rev. ";

fn revise(value: &mut Value<Link>) {
    match value {
        Value::Typed(_, value) => revise(value),
        Value::Integer(number) => *number = number.wrapping_add(1),
        Value::Number(text) => {
            if let Ok(number) = text.parse::<f64>() {
                *text = format!("{:.6}", number + 1.0);
            }
        }
        Value::Enumeration(name) if name == "T" => *name = "F".into(),
        Value::Enumeration(name) if name == "F" => *name = "T".into(),
        Value::Text(text) => *text = revised(&text.characters()),
        Value::Null => *value = Value::Typed("IFCLABEL".into(), Box::new(Value::Text(revised("")))),
        _ => {}
    }
}

fn revised(text: &str) -> Text {
    let numbered = text.rsplit_once(REVISION).and_then(|(text, number)| Some((text, number.parse::<u64>().ok()?)));
    let (text, number) = numbered.unwrap_or((text, 0));
    format!("{text}{REVISION}{}", number + 1).into()
}
