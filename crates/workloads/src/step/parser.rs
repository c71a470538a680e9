//! One statement's tokens as an entity, a header entry or a section mark.

use super::lexer::{Lexer, Misfit, Token};
use super::strings;
use super::value::{Entity, Part, Value};

/// Lists and typed values may stand in one another this deep; real schemas stay below ten.
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
}

/// Parses one statement, without its semicolon.
pub(super) fn parse(text: &str) -> Result<Parsed, Misfit> {
    let mut parser = Parser { lexer: Lexer::new(text) };
    let parsed = match parser.lexer.next()? {
        Some(Token::Name(number)) => parser.entity(number)?,
        Some(Token::Word(word)) => parser.mark_or_entry(word)?,
        _ => return Err(Misfit { at: 0, expected: "'#', a section or a header entry" }),
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

    fn entity(&mut self, number: u64) -> Result<Parsed, Misfit> {
        self.expect(b'=', "'=' behind the entity's number")?;
        let mut parts = Vec::new();
        match self.lexer.next()? {
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
            Token::Text(spelt) => {
                // A spelling that we do not know is kept as it is, doubled apostrophes aside: nothing is lost.
                Value::Text(strings::decode(spelt).unwrap_or_else(|| spelt.replace("''", "'")))
            }
            Token::Enumeration(name) => Value::Enumeration(name.to_owned()),
            Token::Binary(digits) => Value::Binary(digits.to_owned()),
            Token::Word(kind) => {
                self.expect(b'(', "'(' behind the type")?;
                let inner = self.lexer.next()?.ok_or_else(|| self.lexer.misfit("a value"))?;
                let value = self.value(inner, depth + 1)?;
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
