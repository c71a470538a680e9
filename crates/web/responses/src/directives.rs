//! Cache directives: `Cache-Control` of requests and responses (RFC 9111, section 5.2), and the targeted fields that a
//! response may have for this cache in particular (RFC 9213).
//!
//! Malformed directives never extend a permission. A lifetime that is no number, or that stands there twice with
//! different values, is zero, as section 4.2.1 encourages. In a response, a directive whose name is not a token, as in
//! `private; max-age=60`, makes the whole malformed: it may be a restriction that was not understood. The same holds
//! for a targeted field that does not parse. RFC 9213 would ignore it; not storing the response is always allowed.

use crate::policy::{Policy, TargetedSyntax};
use crate::token::is_token;
use http::{HeaderMap, HeaderName, header};
use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef};
use std::convert::Infallible;

/// The largest number of seconds that is told from a larger one: section 1.2.2 asks for 2^31 or a larger one.
pub(crate) const SECONDS_MAX: u32 = 1 << 31;

/// The part of a response that a directive such as `no-cache` is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldScope {
    /// The directive is not there.
    #[default]
    Nothing,
    /// These fields of the response, in lower case.
    Fields(Vec<String>),
    /// The response.
    Whole,
}

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a directive that is there or not")]
pub struct ResponseControl {
    /// For how many seconds it is fresh.
    pub max_age: Option<u32>,
    /// The same for shared caches, and before `max-age`. The response may not be served stale.
    pub s_maxage: Option<u32>,
    /// For how long after that it may be served while it is validated.
    pub stale_while_revalidate: Option<u32>,
    /// For how long after that it may be served when the origin fails.
    pub stale_if_error: Option<u32>,
    /// It must be validated before each use, or these fields of it must not be reused.
    pub no_cache: FieldScope,
    /// It, or these fields of it, is for one user.
    pub private: FieldScope,
    /// It must not be stored.
    pub no_store: bool,
    /// Once stale it must not be used.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// It may be stored where it would not be otherwise.
    pub public: bool,
    /// It may be stored only by a cache that knows its status.
    pub must_understand: bool,
    /// These directives are of a field for this cache in particular: `Expires` is ignored.
    pub targeted: bool,
    /// A part of the field is not a directive. It may restrict what the other parts allow.
    pub malformed: bool,
}

/// The directives of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// The response must have been validated.
    pub no_cache: bool,
    /// Nothing of this exchange should be stored.
    pub no_store: bool,
    /// The origin is not to be asked.
    pub only_if_cached: bool,
    /// The oldest response that will do.
    pub max_age: Option<u32>,
    /// For how many seconds it must stay fresh.
    pub min_fresh: Option<u32>,
    /// For how many seconds it may have been stale; `u32::MAX` for any number.
    pub max_stale: Option<u32>,
}

impl ResponseControl {
    /// Reads the field that is for this cache: the first targeted field of the policy that is there and not empty, or
    /// else
    /// `Cache-Control`.
    pub fn read(policy: &Policy, headers: &HeaderMap) -> Self {
        let targeted = policy.targeted_fields.iter().find_map(|field| match field.syntax {
            TargetedSyntax::Structured => Self::structured(headers, &field.name),
            TargetedSyntax::Surrogate => Self::surrogate(headers, &field.name, policy.cache_name.as_str()),
        });
        match targeted {
            Some(control) => Self { targeted: true, ..control },
            None => Self::cache_control(headers),
        }
    }

    /// Whether a directive keeps this field out of the stored response; the name is in lower case.
    pub(crate) fn withholds(&self, field: &str) -> bool {
        self.no_cache.names(field) || self.private.names(field)
    }

    /// Reads `Cache-Control` alone.
    pub(crate) fn cache_control(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        for (name, argument) in directives(headers) {
            control.add(name, argument);
        }
        control
    }

    /// A targeted field is a dictionary of structured fields. An empty one is as if it were not there, by section 2.1
    /// of RFC 9213.
    fn structured(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let line = joined(headers, name)?;
        let Ok(directives) = sfv::Parser::new(&line).parse_dictionary_with_visitor(Directives::default()) else {
            return Some(Self { malformed: true, ..Self::default() });
        };
        if directives.0.is_empty() {
            return None;
        }
        let mut control = Self::default();
        for (name, argument) in &directives.0 {
            match argument {
                Argument::Absent => control.add(name.as_bytes(), None),
                Argument::Text(text) => control.add(name.as_bytes(), Some(text.as_bytes())),
                Argument::False => {}
            }
        }
        Some(control)
    }

    /// Directives that are for all surrogates, or for this one. `None` if none of them is about storing, as in
    /// `content="ESI/1.0"`: `Cache-Control` counts then. `max-age=60+30` allows 30 seconds of staleness, which are not
    /// used.
    fn surrogate(headers: &HeaderMap, name: &HeaderName, cache_name: &str) -> Option<Self> {
        let directives = headers.get_all(name).iter().flat_map(|line| list_members(line.as_bytes()));
        let mut control = Self::default();
        for directive in directives {
            let mut parts = directive.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let (name, argument) = name_and_argument(parts.next().unwrap_or_default());
            // `no-store; max-age=60` names no surrogate: its comma was forgotten.
            control.malformed |= !is_token(name) || parts.clone().any(|target| !is_token(target));
            if parts.all(|target| target == cache_name.as_bytes()) {
                let argument = argument.map(|text| text.split(|&byte| byte == b'+').next().unwrap_or_default());
                control.add(name, argument);
            }
        }
        (control.max_age.is_some() || control.no_store || control.malformed).then_some(control)
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("max-age") {
            limit(&mut self.max_age, argument);
        } else if is("s-maxage") {
            limit(&mut self.s_maxage, argument);
        } else if is("stale-while-revalidate") {
            limit(&mut self.stale_while_revalidate, argument);
        } else if is("stale-if-error") {
            limit(&mut self.stale_if_error, argument);
        } else if is("no-cache") {
            self.no_cache.add(argument);
        } else if is("private") {
            self.private.add(argument);
        } else if is("no-store") {
            self.no_store = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-understand") {
            self.must_understand = true;
        } else if !is_token(name) {
            self.malformed = true;
        }
    }
}

/// The directives of `Cache-Control`, each with its argument if it has one.
pub(crate) fn directives(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let values = headers.get_all(header::CACHE_CONTROL).into_iter();
    values.flat_map(|value| list_members(value.as_bytes())).map(name_and_argument)
}

impl RequestControl {
    /// Reads the `Cache-Control` of a request. `Pragma` is ignored: section 5.4 deprecates it.
    pub fn read(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        for (name, argument) in directives(headers) {
            control.add(name, argument);
        }
        control
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("max-age") {
            limit(&mut self.max_age, argument);
        } else if is("min-fresh") {
            // A malformed number asks for the most.
            self.min_fresh = Some(argument.and_then(seconds).unwrap_or(SECONDS_MAX));
        } else if is("max-stale") {
            self.max_stale = Some(argument.map_or(u32::MAX, |text| seconds(text).unwrap_or(0)));
        }
    }
}

impl FieldScope {
    /// Adds one directive. Unless it has names of fields and nothing else it is about the whole response.
    fn add(&mut self, argument: Option<&[u8]>) {
        let named = argument.and_then(|text| std::str::from_utf8(text).ok()).map(|text| {
            let names = text.split(',').map(|name| name.trim().to_ascii_lowercase());
            names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
        });
        let named = named.filter(|names| names.iter().all(|name| is_token(name.as_bytes())));
        match (named, &mut *self) {
            (_, Self::Whole) => {}
            (Some(names), Self::Fields(fields)) if !names.is_empty() => fields.extend(names),
            (Some(names), _) if !names.is_empty() => *self = Self::Fields(names),
            _ => *self = Self::Whole,
        }
    }

    /// Whether it is about this field in particular; the name is in lower case.
    pub fn names(&self, field: &str) -> bool {
        matches!(self, Self::Fields(names) if names.iter().any(|name| name == field))
    }
}

/// Sets a number of seconds: zero for one that is malformed, and for two that differ.
fn limit(slot: &mut Option<u32>, argument: Option<&[u8]>) {
    let value = argument.and_then(seconds).unwrap_or(0);
    *slot = match *slot {
        Some(earlier) if earlier != value => Some(0),
        _ => Some(value),
    };
}

/// A number of seconds, which stops at the largest (RFC 9111, section 1.2.2). `None` unless there are digits only.
pub(crate) fn seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |sum, digit| {
        let more = || sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')).min(SECONDS_MAX);
        digit.is_ascii_digit().then(more)
    })
}

/// The members of a comma-separated list, without the space around them and without empty ones. A comma in a quoted
/// string separates nothing; a quote that is never closed is a byte like any other, so that it hides no directive.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    let members = std::iter::from_fn(move || {
        let list = rest?;
        let end = member_end(list);
        rest = list.get(end + 1..);
        Some(&list[..end])
    });
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Where the first member of a list ends.
fn member_end(list: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    let end = list.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    });
    let at_any_comma = || list.iter().position(|&byte| byte == b',');
    end.or_else(|| if quoted { at_any_comma() } else { None }).unwrap_or(list.len())
}

/// A directive's name, and its argument without quotes.
fn name_and_argument(directive: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(equals) = directive.iter().position(|&byte| byte == b'=') else { return (directive, None) };
    let argument = &directive[equals + 1..];
    let unquoted = argument.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    (&directive[..equals], Some(unquoted.unwrap_or(argument)))
}

/// All lines of a field as one, as structured fields are parsed; `None` if there is none.
pub(crate) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let mut lines = headers.get_all(name).iter();
    let mut joined = lines.next()?.as_bytes().to_vec();
    for line in lines {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line.as_bytes());
    }
    Some(joined)
}

/// The members of a dictionary of directives; the last of those of one name is the one that counts.
#[derive(Default)]
struct Directives(Vec<(String, Argument)>);

enum Argument {
    Absent,
    False,
    Text(String),
}

impl<'de> DictionaryVisitor<'de> for Directives {
    type Out = Self;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        self.0.retain(|(name, _)| name != key.as_str());
        self.0.push((key.as_str().to_owned(), Argument::Text(String::new())));
        Ok(&mut self.0.last_mut().expect("just pushed").1)
    }

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// A value of a type that no directive has stays the empty text, which is no number.
impl<'de> EntryVisitor<'de> for &mut Argument {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(move |item: BareItemFromInput<'de>| {
            *self = match item {
                BareItemFromInput::Boolean(true) => Argument::Absent,
                BareItemFromInput::Boolean(false) => Argument::False,
                BareItemFromInput::Integer(number) => Argument::Text(i64::from(number).to_string()),
                BareItemFromInput::String(text) => Argument::Text(text.as_str().to_owned()),
                BareItemFromInput::Token(token) => Argument::Text(token.as_str().to_owned()),
                _ => Argument::Text(String::new()),
            };
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}
