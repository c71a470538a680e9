//! Entities as the text of a file.

use crate::extra::Extra;
use crate::strings;
use crate::text::Text;
use crate::value::{Entity, Part, Value};
use std::fmt;
use std::io::{self, Write};

/// Writes the header, with what comes before it.
pub fn write_header(out: &mut impl Write, header: &[Part]) -> io::Result<()> {
    out.write_all(b"ISO-10303-21;\nHEADER;\n")?;
    for part in header {
        let mut line = Line::of_a_file();
        line.part(part);
        line.end(out)?;
    }
    out.write_all(b"ENDSEC;\n")
}

/// Writes one entity on a line of its own.
pub fn write_entity(out: &mut impl Write, entity: &Entity) -> io::Result<()> {
    let mut line = Line::of_a_file();
    line.entity(entity);
    line.end(out)
}

/// Writes a statement that is neither of the header nor an entity, on a line of its own.
pub fn write_extra(out: &mut impl Write, extra: &Extra) -> io::Result<()> {
    let mut line = Line::of_a_file();
    line.extra(extra);
    line.end(out)
}

/// A statement, with characters instead of their encodings, as edition 3 of ISO 10303-21 has it.
impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line::for_people();
        line.entity(self);
        line.bytes.push(b';');
        f.write_str(&String::from_utf8_lossy(&line.bytes))
    }
}

/// A statement that is being written.
struct Line {
    bytes: Vec<u8>,
    push_text: fn(&Text, &mut Vec<u8>),
}

impl Line {
    /// A line with the spellings of the file.
    fn of_a_file() -> Self {
        Self { bytes: Vec::new(), push_text: |text, out| out.extend_from_slice(&text.spelling()) }
    }

    /// A line with characters.
    fn for_people() -> Self {
        Self { bytes: Vec::new(), push_text: |text, out| strings::encode_readably(&text.characters(), out) }
    }

    fn end(mut self, out: &mut impl Write) -> io::Result<()> {
        self.bytes.extend_from_slice(b";\n");
        out.write_all(&self.bytes)
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn entity(&mut self, entity: &Entity) {
        self.push(&format!("#{}=", entity.number));
        if let [part] = entity.parts.as_slice() {
            return self.part(part);
        }
        self.push("(");
        entity.parts.iter().for_each(|part| self.part(part));
        self.push(")");
    }

    fn extra(&mut self, extra: &Extra) {
        match extra {
            Extra::Anchor { name, value, tags } => {
                self.push(&format!("<{name}>="));
                self.value(value);
                for (tag, value) in tags {
                    self.push(&format!("{{{tag}:"));
                    self.value(value);
                    self.push("}");
                }
            }
            Extra::Reference { name, resource } => self.push(&format!("{name}=<{resource}>")),
            Extra::Data(parameters) => {
                self.push("DATA");
                if !parameters.is_empty() {
                    self.list(parameters);
                }
            }
            Extra::Signature(content) => self.push(&format!("SIGNATURE{content}ENDSEC")),
        }
    }

    fn part(&mut self, part: &Part) {
        self.push(&part.kind);
        self.list(&part.values);
    }

    fn list(&mut self, values: &[Value]) {
        self.push("(");
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                self.push(",");
            }
            self.value(value);
        }
        self.push(")");
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.push("$"),
            Value::Derived => self.push("*"),
            Value::Integer(number) => self.push(&number.to_string()),
            Value::Number(text) | Value::Name(text) => self.push(text),
            Value::Text(text) => {
                self.push("'");
                (self.push_text)(text, &mut self.bytes);
                self.push("'");
            }
            Value::Enumeration(name) => self.push(&format!(".{name}.")),
            Value::Binary(digits) => self.push(&format!("\"{digits}\"")),
            Value::Resource(resource) => self.push(&format!("<{resource}>")),
            Value::Ref(number) => self.push(&format!("#{number}")),
            Value::List(values) => self.list(values),
            Value::Typed(kind, value) => {
                self.push(kind);
                self.list(std::slice::from_ref(value));
            }
        }
    }
}
