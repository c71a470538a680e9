//! Fields of the origin that could not be read. Each is counted by the name of its reason and told to the operator,
//! with its value: the application's author assumes that it was understood.

use crate::operate::notes::Note;
use crate::shared::Shared;
use http::{HeaderMap, HeaderName, header};
use responses::{DependencyRefusal, NotStored};
use std::fmt::{self, Display, Write};
use std::sync::atomic::Ordering::Relaxed;

/// The bytes of a field that are quoted.
const QUOTED_BYTES_MAX: usize = 120;

impl Shared {
    /// Tells the operator of a response that is not stored, if the reason is a field that could not be read.
    pub(crate) fn misread_response(&self, url: &impl Display, reason: &'static str, fields: &HeaderMap) {
        let policy = &self.config.policy;
        let names: Vec<&HeaderName> = if is_of_dependencies(reason) {
            policy.dependency_fields.iter().map(|field| &field.name).collect()
        } else if reason == NotStored::ControlInvalid.name() {
            let targeted = policy.targeted_fields.iter().map(|field| &field.name);
            targeted.chain([&header::CACHE_CONTROL]).collect()
        } else if reason == NotStored::VaryInvalid.name() {
            vec![&header::VARY]
        } else {
            return;
        };
        self.notes.say_seldom(reason, || {
            Note::FieldMisread(format!("the response of {url} is not stored ({reason}): {}", Quoted(&names, fields)))
        });
    }

    /// Counts a change whose names could not be read, so that everything was invalidated, and tells the operator.
    pub(crate) fn misread_change(&self, url: &impl Display, why: DependencyRefusal, fields: &HeaderMap) {
        self.counters.changes_misread.fetch_add(1, Relaxed);
        let names = [&HeaderName::from_static("cache-group-invalidation")];
        self.notes.say_seldom(ALL_INVALIDATED, || {
            let (why, quoted) = (why.name(), Quoted(&names, fields));
            Note::FieldMisread(format!("a change at {url} has invalidated everything ({why}): {quoted}"))
        });
    }
}

/// The detail of a request that has invalidated everything, since the names of what it changed could not be read.
pub(crate) const ALL_INVALIDATED: &str = "all-invalidated";

/// The detail of a response that names dependencies behind its body, where no cache reads them.
pub(crate) const IN_TRAILER: &str = "dependencies-trailer";

fn is_of_dependencies(reason: &str) -> bool {
    let refusals = DependencyRefusal::ALL.map(DependencyRefusal::name);
    refusals.contains(&reason) || [NotStored::Dependencies.name(), IN_TRAILER].contains(&reason)
}

/// Some fields of a response, for an operator.
struct Quoted<'a>(&'a [&'a HeaderName], &'a HeaderMap);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().flat_map(|name| self.1.get_all(*name).iter().map(move |value| (name, value)));
        let mut text = String::new();
        for (name, value) in lines {
            let cut = &value.as_bytes()[..value.len().min(QUOTED_BYTES_MAX)];
            let separator = if text.is_empty() { "" } else { ", " };
            write!(text, "{separator}`{name}: {}`", cut.escape_ascii())?;
        }
        f.write_str(&text)?;
        if self.0.iter().any(|name| name.as_str().starts_with("cache-group") && self.1.contains_key(*name)) {
            f.write_str("; names are strings in quotes, separated by commas, as in \"item:1\", \"list:bikes\"")?;
        }
        Ok(())
    }
}
