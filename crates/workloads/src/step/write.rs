//! Entities as the text of a file.

use super::strings;
use super::value::{Entity, Part, Value};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes what comes before the entities.
pub fn write_header(out: &mut impl Write, header: &[Part]) -> io::Result<()> {
    out.write_all(b"ISO-10303-21;\nHEADER;\n")?;
    for part in header {
        let mut line = String::new();
        push_part(&mut line, part);
        writeln!(out, "{line};")?;
    }
    out.write_all(b"ENDSEC;\nDATA;\n")
}

/// Writes one entity on a line of its own.
pub fn write_entity(out: &mut impl Write, entity: &Entity) -> io::Result<()> {
    let mut line = format!("#{}=", entity.number);
    match entity.parts.as_slice() {
        [part] => push_part(&mut line, part),
        parts => {
            line.push('(');
            for part in parts {
                push_part(&mut line, part);
            }
            line.push(')');
        }
    }
    writeln!(out, "{line};")
}

/// Writes what comes after the entities.
pub fn write_footer(out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"ENDSEC;\nEND-ISO-10303-21;\n")
}

fn push_part(line: &mut String, part: &Part) {
    line.push_str(&part.kind);
    push_list(line, &part.values);
}

fn push_list(line: &mut String, values: &[Value]) {
    line.push('(');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            line.push(',');
        }
        push_value(line, value);
    }
    line.push(')');
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::Null => line.push('$'),
        Value::Derived => line.push('*'),
        Value::Integer(number) => write!(line, "{number}").expect("a String takes everything"),
        Value::Number(text) => line.push_str(text),
        Value::Text(text) => {
            line.push('\'');
            strings::encode(text, line);
            line.push('\'');
        }
        Value::Enumeration(name) => write!(line, ".{name}.").expect("a String takes everything"),
        Value::Binary(digits) => write!(line, "\"{digits}\"").expect("a String takes everything"),
        Value::Ref(number) => write!(line, "#{number}").expect("a String takes everything"),
        Value::List(values) => push_list(line, values),
        Value::Typed(kind, value) => {
            line.push_str(kind);
            push_list(line, std::slice::from_ref(value));
        }
    }
}
