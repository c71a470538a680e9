//! In which order a file's entities are to lie, and which relations each is to link back to.
//!
//! The order is depth first: an entity, then the relations that say what it has, then what it refers to, each with
//! everything behind it that has no place yet. Elements come first of all, so that a window and what it alone is made
//! of lie in a row; an element that many share, such as a material, lies with the first that has it.

use super::{ELEMENTS, RELATIONS};
use crate::{Entity, Value};
use std::collections::HashMap;

/// Two entities have this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Twice(u64);

impl std::fmt::Display for Twice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the file has two entities #{}", self.0)
    }
}

impl std::error::Error for Twice {}

/// The plan, by position in the file.
#[derive(Debug)]
pub(super) struct Plan {
    /// Entities in the order that they are to lie in.
    pub(super) order: Vec<usize>,
    /// For each entity the relations that say what it has.
    pub(super) relations: Vec<Vec<usize>>,
    /// Where walks begin.
    pub(super) elements: Vec<usize>,
}

impl Plan {
    /// Plans a file whose references all lead to entities that it has.
    pub(super) fn new(entities: &[Entity]) -> Result<Self, Twice> {
        let positions = positions(entities)?;
        let references = references(entities, &positions);
        let relations = relations(entities, &positions);
        let elements = elements(entities, &references);
        let mut order = Order { placed: vec![false; entities.len()], order: Vec::with_capacity(entities.len()) };
        for start in elements.iter().copied().chain(0..entities.len()) {
            order.place_from(start, &references, &relations);
        }
        Ok(Self { order: order.order, relations, elements })
    }
}

fn positions(entities: &[Entity]) -> Result<HashMap<u64, usize>, Twice> {
    let mut positions = HashMap::with_capacity(entities.len());
    for (at, entity) in entities.iter().enumerate() {
        if positions.insert(entity.number, at).is_some() {
            return Err(Twice(entity.number));
        }
    }
    Ok(positions)
}

/// For each entity those that it refers to.
fn references(entities: &[Entity], positions: &HashMap<u64, usize>) -> Vec<Vec<usize>> {
    let of = |entity: &Entity| {
        let mut found = Vec::new();
        entity.for_each_ref(|to| found.extend(positions.get(to)));
        found
    };
    entities.iter().map(of).collect()
}

/// For each entity the relations that name it as an owner.
fn relations(entities: &[Entity], positions: &HashMap<u64, usize>) -> Vec<Vec<usize>> {
    let mut relations = vec![Vec::new(); entities.len()];
    for (at, entity) in entities.iter().enumerate() {
        let Some(&(_, owners, _)) = RELATIONS.iter().find(|(kind, ..)| *kind == entity.kind()) else { continue };
        let Some(value) = entity.parts[0].values.get(owners) else { continue };
        refs_of(value).iter().filter_map(|to| positions.get(to)).for_each(|&owner| relations[owner].push(at));
    }
    relations
}

fn refs_of(value: &Value) -> Vec<u64> {
    match value {
        Value::Ref(to) => vec![*to],
        Value::List(values) => values.iter().flat_map(refs_of).collect(),
        _ => Vec::new(),
    }
}

/// The windows and doors; without any, what nothing refers to.
fn elements(entities: &[Entity], references: &[Vec<usize>]) -> Vec<usize> {
    let is_element = |at: &usize| ELEMENTS.iter().any(|kind| entities[*at].is_a(kind));
    let elements: Vec<usize> = (0..entities.len()).filter(is_element).collect();
    if !elements.is_empty() {
        return elements;
    }
    let mut referred = vec![false; entities.len()];
    references.iter().flatten().for_each(|&to| referred[to] = true);
    (0..entities.len()).filter(|&at| !referred[at]).collect()
}

struct Order {
    placed: Vec<bool>,
    order: Vec<usize>,
}

impl Order {
    /// Places an entity and everything behind it. A stack of our own: a chain of references may be long.
    fn place_from(&mut self, start: usize, references: &[Vec<usize>], relations: &[Vec<usize>]) {
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut self.placed[at], true) {
                continue;
            }
            self.order.push(at);
            next.extend(references[at].iter().rev());
            next.extend(relations[at].iter().rev());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Reader, Statement};
    use std::io::Cursor;

    fn parse(data: &str) -> Vec<Entity> {
        let text = format!("ISO-10303-21;HEADER;ENDSEC;DATA;{data}ENDSEC;END-ISO-10303-21;");
        let statements = Reader::new(Box::new(Cursor::new(text.into_bytes())), None);
        statements
            .filter_map(|statement| match statement.unwrap() {
                Statement::Entity(entity) => Some(entity),
                Statement::Header(_) | Statement::Extra(_) => None,
            })
            .collect()
    }

    fn order(data: &str) -> Vec<u64> {
        let entities = parse(data);
        Plan::new(&entities).unwrap().order.iter().map(|&at| entities[at].number).collect()
    }

    #[test]
    fn the_parts_of_a_window_lie_behind_it() {
        let data = "#1=MATERIAL();#2=PROPERTY();#3=SET((#2));#4=IFCWINDOW(#8);#5=IFCDOOR(#8);#8=SHAPE(#1);
            #6=IFCRELDEFINESBYPROPERTIES('',$,$,$,(#4),#3);#7=IFCRELASSOCIATESMATERIAL('',$,$,$,(#5,#4),#1);";
        assert_eq!(order(data), [4, 6, 3, 2, 7, 5, 8, 1]);
    }

    #[test]
    fn circles_end() {
        assert_eq!(order("#1=A(#2);#2=B(#1,#2);"), [1, 2]);
    }

    #[test]
    fn a_number_is_an_entity_s_own() {
        let flaw = Plan::new(&parse("#1=A();#1=B();")).unwrap_err();
        assert_eq!(flaw.to_string(), "the file has two entities #1");
    }
}
