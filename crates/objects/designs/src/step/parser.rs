//! One statement's tokens as an entity, a header entry, a section mark, an anchor or a reference to another file.

use super::lexer::{Lexer, Misfit, Token};
use crate::{Entity, Extra, Part, Text, Value};

/// Lists and typed values may are in one another this deep; real schemas stay below ten.
const DEPTH_MAX: usize = 64;

/// The parts of one statement.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    /// `WORD`
    Mark(String),
    /// `WORD(…)`
    Entry(Part),
    /// `#1=…`
    Entity(Entity),
    /// `<name>=…` or `#1=<…>`
    Extra(Extra),
}

/// Parses one statement, without its semicolon.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, Misfit> {
    let mut parser = Parser { lexer: Lexer::new(text) };
    let parsed = match parser.lexer.next()? {
        Some(Token::Name(number)) => parser.entity_or_reference(number)?,
        Some(Token::OtherName(name)) => parser.reference(name.to_owned())?,
        Some(Token::Resource(name)) => parser.anchor(name)?,
        Some(Token::Word(word)) => parser.mark_or_entry(word)?,
        _ => return Err(Misfit { at: 0, expected: "a name, a section or a header entry" }),
    };
    match parser.lexer.next()? {
        None => Ok(parsed),
        Some(_) => Err(parser.lexer.misfit("the end of the statement")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
}

impl<'a> Parser<'a> {
    fn mark_or_entry(&mut self, word: &str) -> Result<Parsed, Misfit> {
        match self.lexer.next()? {
            None => Ok(Parsed::Mark(word.to_owned())),
            Some(Token::Sign(b'(')) => Ok(Parsed::Entry(Part { kind: word.to_owned(), values: self.values(0)? })),
            Some(_) => Err(self.lexer.misfit("'(' or the end of the statement")),
        }
    }

    fn entity_or_reference(&mut self, number: u64) -> Result<Parsed, Misfit> {
        self.expect(b'=', "'=' behind the entity's number")?;
        let mut parts = Vec::new();
        match self.lexer.next()? {
            Some(Token::Resource(resource)) => {
                let (name, resource) = (format!("#{number}"), resource.to_owned());
                return Ok(Parsed::Extra(Extra::Reference { name, resource }));
            }
            Some(Token::Word(kind)) => parts.push(self.part(kind)?),
            Some(Token::Sign(b'(')) => loop {
                match self.lexer.next()? {
                    Some(Token::Word(kind)) => parts.push(self.part(kind)?),
                    Some(Token::Sign(b')')) => break,
                    _ => return Err(self.lexer.misfit("a type or ')'")),
                }
            },
            _ => return Err(self.lexer.misfit("a type or '('")),
        }
        Ok(Parsed::Entity(Entity { number, parts }))
    }

    fn reference(&mut self, name: String) -> Result<Parsed, Misfit> {
        self.expect(b'=', "'=' behind the name")?;
        match self.lexer.next()? {
            Some(Token::Resource(resource)) => {
                Ok(Parsed::Extra(Extra::Reference { name, resource: resource.to_owned() }))
            }
            _ => Err(self.lexer.misfit("the place of another file, in angle brackets")),
        }
    }

    fn anchor(&mut self, name: &str) -> Result<Parsed, Misfit> {
        self.expect(b'=', "'=' behind the anchor's name")?;
        let value = self.next_value(0)?;
        let mut tags = Vec::new();
        loop {
            match self.lexer.next()? {
                None => return Ok(Parsed::Extra(Extra::Anchor { name: name.to_owned(), value, tags })),
                Some(Token::Sign(b'{')) => tags.push(self.tag()?),
                Some(_) => return Err(self.lexer.misfit("'{' or the end of the statement")),
            }
        }
    }

    /// A tag of an anchor; the opening brace has been read.
    fn tag(&mut self) -> Result<(String, Value), Misfit> {
        let Some(Token::Word(name)) = self.lexer.next()? else { return Err(self.lexer.misfit("the tag's name")) };
        self.expect(b':', "':' behind the tag's name")?;
        let value = self.next_value(0)?;
        self.expect(b'}', "'}' behind the tag's value")?;
        Ok((name.to_owned(), value))
    }

    fn next_value(&mut self, depth: usize) -> Result<Value, Misfit> {
        let token = self.lexer.next()?.ok_or_else(|| self.lexer.misfit("a value"))?;
        self.value(token, depth)
    }

    fn part(&mut self, kind: &str) -> Result<Part, Misfit> {
        self.expect(b'(', "'(' behind the type")?;
        Ok(Part { kind: kind.to_owned(), values: self.values(0)? })
    }

    /// Values up to the closing parenthesis; the opening one has been read.
    fn values(&mut self, depth: usize) -> Result<Vec<Value>, Misfit> {
        let mut values = Vec::new();
        loop {
            match self.lexer.next()? {
                Some(Token::Sign(b')')) if values.is_empty() => return Ok(values),
                Some(token) => values.push(self.value(token, depth)?),
                None => return Err(self.lexer.misfit("')'")),
            }
            match self.lexer.next()? {
                Some(Token::Sign(b',')) => {}
                Some(Token::Sign(b')')) => return Ok(values),
                _ => return Err(self.lexer.misfit("',' or ')'")),
            }
        }
    }

    fn value(&mut self, token: Token<'a>, depth: usize) -> Result<Value, Misfit> {
        if depth == DEPTH_MAX {
            return Err(self.lexer.misfit("fewer lists inside one another"));
        }
        Ok(match token {
            Token::Sign(b'$') => Value::Null,
            Token::Sign(b'*') => Value::Derived,
            Token::Sign(b'(') => Value::List(self.values(depth + 1)?),
            Token::Name(number) => Value::Ref(number),
            Token::Number(text) => self.number(text)?,
            Token::OtherName(name) => Value::Name(name.to_owned()),
            Token::Resource(resource) => Value::Resource(resource.to_owned()),
            Token::Text(spelling) => Value::Text(Text::from_spelling(spelling)),
            Token::Enumeration(name) => Value::Enumeration(name.to_owned()),
            Token::Binary(digits) => Value::Binary(digits.to_owned()),
            Token::Word(kind) => {
                self.expect(b'(', "'(' behind the type")?;
                let value = self.next_value(depth + 1)?;
                self.expect(b')', "')' behind the typed value")?;
                Value::Typed(kind.to_owned(), Box::new(value))
            }
            Token::Sign(_) => return Err(self.lexer.misfit("a value")),
        })
    }

    fn number(&self, text: &str) -> Result<Value, Misfit> {
        // A whole number that its own text would not come back from, such as +1 or 007, keeps its text.
        match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => Ok(Value::Integer(number)),
            _ if text.parse::<f64>().is_ok() => Ok(Value::Number(text.to_owned())),
            _ => Err(self.lexer.misfit("a number")),
        }
    }

    fn expect(&mut self, sign: u8, expected: &'static str) -> Result<(), Misfit> {
        let at = self.lexer.at();
        match self.lexer.next()? {
            Some(Token::Sign(got)) if got == sign => Ok(()),
            _ => Err(Misfit { at, expected }),
        }
    }
}
