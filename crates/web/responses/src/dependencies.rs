//! The names of what a response depends on.
//!
//! They are in `Cache-Groups` (RFC 9875), or in the fields that large caches had before it. All fields share one
//! space of names. A list that is too long or malformed is refused, and never cut: a response with a dependency that
//! nobody knows would be served stale. For the same reason a member that is not a string, such as a name without its
//! quotes, refuses the whole list, although section 2 of RFC 9875 would ignore it.

use crate::directives::joined;
use crate::policy::{DependencyField, DependencySyntax, Policy};
use http::{HeaderMap, HeaderName};
use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor};
use sfv::{BareItemFromInput, Parser};
use std::convert::Infallible;

/// Names of dependencies, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies(Vec<Box<[u8]>>);

/// Why the dependencies of a response are refused. It is not stored then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyRefusal {
    /// There are more than the policy's limit.
    Count,
    /// A name is longer than the policy's limit.
    Length,
    /// The field is not a list of strings, or has content that names nothing.
    Syntax,
}

impl DependencyRefusal {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Count, Self::Length, Self::Syntax];

    /// The reason's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "dependencies-count",
            Self::Length => "dependency-length",
            Self::Syntax => "dependencies-syntax",
        }
    }
}

impl Dependencies {
    /// Reads everything that the policy's fields name.
    pub fn read(policy: &Policy, headers: &HeaderMap) -> Result<Self, DependencyRefusal> {
        Self::read_fields(policy, &policy.dependency_fields, headers)
    }

    /// Reads what `Cache-Group-Invalidation` names.
    pub(crate) fn read_invalidation(policy: &Policy, headers: &HeaderMap) -> Result<Self, DependencyRefusal> {
        let field = DependencyField {
            name: HeaderName::from_static("cache-group-invalidation"),
            syntax: DependencySyntax::StructuredList,
        };
        Self::read_fields(policy, &[field], headers)
    }

    /// Reads the names in an operator's request: in the policy's fields, and in those that are read by default. `None`
    /// if there is no such field.
    pub fn read_purge(policy: &Policy, headers: &HeaderMap) -> Option<Result<Self, DependencyRefusal>> {
        let own = &policy.dependency_fields;
        let usual = DependencyField::defaults().into_iter();
        let others = usual.filter(|field| own.iter().all(|known| known.name != field.name));
        let fields: Vec<_> = own.iter().cloned().chain(others).collect();
        let is_there = fields.iter().any(|field| headers.contains_key(&field.name));
        let named = || match Self::read_fields(policy, &fields, headers) {
            Ok(names) if names.is_empty() => Err(DependencyRefusal::Syntax),
            read => read,
        };
        is_there.then(named)
    }

    /// Whether one of the fields names something, or has content that could not be read.
    pub(crate) fn has_some(policy: &Policy, field: &DependencyField, headers: &HeaderMap) -> bool {
        Self::read_fields(policy, std::slice::from_ref(field), headers).map_or(true, |names| !names.is_empty())
    }

    fn read_fields(
        policy: &Policy,
        fields: &[DependencyField],
        headers: &HeaderMap,
    ) -> Result<Self, DependencyRefusal> {
        let mut names = Self::default();
        for field in fields {
            let Some(line) = joined(headers, &field.name) else { continue };
            match field.syntax {
                DependencySyntax::StructuredList => names.add_structured(policy, &line)?,
                DependencySyntax::Spaces => {
                    names.add_split(policy, &line, |byte| byte.is_ascii_whitespace() || byte == b',')?;
                }
                DependencySyntax::Commas => names.add_split(policy, &line, |byte| byte == b',')?,
            }
        }
        names.0.sort_unstable();
        names.0.dedup();
        Ok(names)
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none. The response then depends on the whole origin.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add_split(&mut self, policy: &Policy, line: &[u8], separates: fn(u8) -> bool) -> Result<(), DependencyRefusal> {
        let names = line.split(|&byte| separates(byte)).map(<[u8]>::trim_ascii);
        let mut names = names.filter(|name| !name.is_empty()).peekable();
        if names.peek().is_none() && !line.trim_ascii().is_empty() {
            return Err(DependencyRefusal::Syntax);
        }
        names.try_for_each(|name| self.add(policy, name))
    }

    fn add_structured(&mut self, policy: &Policy, line: &[u8]) -> Result<(), DependencyRefusal> {
        let strings = Parser::new(line).parse_list_with_visitor(Strings::default());
        let strings = strings.map_err(|_| DependencyRefusal::Syntax)?.0.ok_or(DependencyRefusal::Syntax)?;
        if strings.iter().any(String::is_empty) {
            return Err(DependencyRefusal::Syntax);
        }
        strings.iter().try_for_each(|name| self.add(policy, name.as_bytes()))
    }

    fn add(&mut self, policy: &Policy, name: &[u8]) -> Result<(), DependencyRefusal> {
        if name.len() > policy.dependency_bytes_max {
            return Err(DependencyRefusal::Length);
        }
        if self.0.len() >= policy.dependencies_max {
            return Err(DependencyRefusal::Count);
        }
        self.0.push(name.into());
        Ok(())
    }
}

/// The strings of a list; `None` if it has a member of another type.
struct Strings(Option<Vec<String>>);

impl Default for Strings {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl<'de> ListVisitor<'de> for Strings {
    type Out = Self;
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Member(self))
    }

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

struct Member<'a>(&'a mut Strings);

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(move |item: BareItemFromInput<'de>| {
            match (item, &mut self.0.0) {
                (BareItemFromInput::String(text), Some(strings)) => strings.push(text.as_str().to_owned()),
                (_, strings) => *strings = None,
            }
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        self.0.0 = None;
        Ok(Ignored)
    }
}
