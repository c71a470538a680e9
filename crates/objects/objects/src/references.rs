//! Where an object refers to, by its bytes alone: what a store needs to know to have pages follow.
//!
//! A reference in a value is a byte string of its own length, and nothing else says that it is one. So other bytes of
//! that length are considered one too: this is for hints.

use crate::Ref;
use crate::byte_head::Head;
use crate::cbor;
use crate::format::Kind;
use crate::kinds;
use crate::tree::{Payload, View};
use crate::value::{Slot, Value};
use types::ObjectId;

/// Tells where an object of this library refers to, by the bytes of its slot.
pub fn references(object: &[u8], found: &mut dyn FnMut(ObjectId)) {
    // The object's identity matters for the text of an error only.
    let Ok(Some(slot)) = Slot::parse(ObjectId::root(0).into(), object) else { return };
    let content = match slot.value {
        Value::Chain(chain) => return found(chain.head),
        Value::Inline(content) => content,
    };
    match slot.kind {
        Kind::Bytes => {}
        Kind::ByteValue => Head::parse(content).and_then(|head| head.top).into_iter().for_each(found),
        Kind::Value => in_value(content, found),
        Kind::Node => in_node(content, found),
        Kind::Map => kinds::split(content).into_iter().for_each(|(_, node)| in_node(node, found)),
    }
}

fn in_value(content: &[u8], found: &mut dyn FnMut(ObjectId)) {
    cbor::byte_strings(content, &mut |bytes| {
        if let Some(reference) = Ref::<()>::from_bytes(bytes) {
            found(reference.id());
        }
    });
}

fn in_node(node: &[u8], found: &mut dyn FnMut(ObjectId)) {
    let Some(node) = View::parse(node) else { return };
    if !node.is_leaf() {
        return (0..node.len()).filter_map(|i| node.child(i)).for_each(found);
    }
    for (_, payload) in (0..node.len()).filter_map(|i| node.entry(i)) {
        match Payload::parse(payload) {
            Some(Payload::Here(bare)) => in_value(bare, found),
            Some(Payload::Elsewhere(object)) => found(object),
            None => {}
        }
    }
}
