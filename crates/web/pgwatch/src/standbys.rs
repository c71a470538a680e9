//! The server's list of synchronous standbys, `synchronous_standby_names`, and the watcher in it.
//!
//! A commit waits for this many standbys of the list, of those that are there. So a watcher is waited for even when it
//! is dead only if *all* names of the list are: `FIRST 2 (watcher, a)` waits for it, `FIRST 1 (watcher, a)` continues
//! with `a`.

use std::fmt;

/// Names in a list.
const NAMES_MAX: usize = 1024;

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standbys {
    /// How many are waited for.
    count: usize,
    is_any: bool,
    names: Vec<String>,
}

impl Standbys {
    /// Reads the setting; `None` if it makes no sense.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::default());
        }
        let Some((head, list)) = text.split_once('(') else {
            return Some(Self { count: 1, is_any: false, names: names(text)? });
        };
        let head = head.trim().to_ascii_lowercase();
        let (is_any, count) = match head.split_once(char::is_whitespace) {
            Some(("any", count)) => (true, count),
            Some(("first", count)) => (false, count),
            _ => (false, head.as_str()),
        };
        Some(Self { count: count.trim().parse().ok()?, is_any, names: names(list.trim().strip_suffix(')')?)? })
    }

    /// Whether every commit waits for this one.
    pub(crate) fn requires(&self, name: &str) -> bool {
        let is_named = self.names.iter().any(|other| other.eq_ignore_ascii_case(name));
        is_named && self.waits_for_all()
    }

    /// Why commits do not wait for this one by the setting, and the setting that has them wait; `None` if they do.
    pub(crate) fn why_not(setting: &str, name: &str) -> Option<String> {
        let said = format!("synchronous_standby_names is '{setting}'");
        let Some(list) = Self::parse(setting) else {
            return Some(format!("{said}, which is not a list of standbys"));
        };
        let is_named = list.names.iter().any(|other| other.eq_ignore_ascii_case(name));
        if is_named && list.waits_for_all() {
            return None;
        }
        if list.names.iter().any(|other| other == "*") {
            return Some(format!("{said}, where any standby may stand for '*': name each one, {name} among them"));
        }
        if !is_named {
            return Some(format!("{said}, without {name}"));
        }
        let (count, names) = (list.count, list.names.len());
        let needed = Self { count: names, ..list };
        Some(format!(
            "{said}, which names {name} and lets commits go when {count} of {names} have confirmed: expected '{needed}'"
        ))
    }

    /// The list with this one; `None` if no list says that this one is waited for, and the others as before.
    pub(crate) fn with(&self, name: &str) -> Option<Self> {
        if self.names.is_empty() {
            return Some(Self { count: 1, is_any: false, names: vec![name.to_owned()] });
        }
        let names = [name.to_owned()].into_iter().chain(self.names.iter().cloned()).collect();
        self.waits_for_all().then(|| Self { count: self.count + 1, is_any: self.is_any, names })
    }

    /// The list without this one.
    pub(crate) fn without(&self, name: &str) -> Self {
        let names: Vec<_> = self.names.iter().filter(|other| !other.eq_ignore_ascii_case(name)).cloned().collect();
        let gone = self.names.len() - names.len();
        if names.is_empty() {
            Self::default()
        } else {
            Self { count: self.count.saturating_sub(gone).max(1), names, ..*self }
        }
    }

    fn waits_for_all(&self) -> bool {
        self.count == self.names.len() && !self.names.iter().any(|name| name == "*")
    }
}

fn names(list: &str) -> Option<Vec<String>> {
    let read = |name: &str| {
        let name = name.trim();
        match name.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"').map(|inner| inner.replace("\"\"", "\"")),
            None => Some(name.to_owned()),
        }
    };
    let names: Vec<_> = list.split(',').map(read).collect::<Option<_>>()?;
    (names.len() <= NAMES_MAX && names.iter().all(|name| !name.is_empty())).then_some(names)
}

impl fmt::Display for Standbys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = self.names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        write!(f, "{} {} ({})", if self.is_any { "ANY" } else { "FIRST" }, self.count, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Option<String> {
        Standbys::parse(text).unwrap().with("watch").map(|list| list.to_string())
    }

    #[test]
    fn a_watcher_is_added_where_it_can_be_required() {
        assert_eq!(with("").as_deref(), Some("FIRST 1 (\"watch\")"));
        assert_eq!(with("a").as_deref(), Some("FIRST 2 (\"watch\", \"a\")"));
        assert_eq!(with("ANY 2 (a, \"b c\")").as_deref(), Some("ANY 3 (\"watch\", \"a\", \"b c\")"));
        assert_eq!(with("2 (a,b)").as_deref(), Some("FIRST 3 (\"watch\", \"a\", \"b\")"));
        for one_of_several in ["a, b", "*", "FIRST 1 (a, b)", "ANY 1 (a, b)", "ANY 2 (a, *)"] {
            assert_eq!(with(one_of_several), None, "{one_of_several}");
        }
    }

    #[test]
    fn a_watcher_is_required_only_if_all_are() {
        let requires = |text: &str| Standbys::parse(text).unwrap().requires("watch");
        assert!(requires("watch") && requires("FIRST 2 (a, watch)") && requires("ANY 1 (\"watch\")"));
        assert!(!requires("") && !requires("FIRST 1 (watch, a)") && !requires("a") && !requires("*"));
    }

    #[test]
    fn the_reason_for_which_nobody_waits_names_the_watcher_as_the_list_does() {
        let why_not = |text: &str| Standbys::why_not(text, "watch");
        assert_eq!(why_not("watch"), None);
        assert_eq!(why_not("ANY 2 (watch, a)"), None);
        for (text, expected) in [
            ("", ", without watch"),
            ("a", ", without watch"),
            (
                "FIRST 1 (watch, a)",
                "which names watch and lets commits go when 1 of 2 have confirmed: expected 'FIRST 2 (\"watch\", \"a\")'",
            ),
            ("watch, a, b", "when 1 of 3 have confirmed: expected 'FIRST 3 (\"watch\", \"a\", \"b\")'"),
            ("FIRST 2 (watch, *)", "any standby may stand for '*'"),
            ("FIRST x (watch)", "which is not a list of standbys"),
        ] {
            let why = why_not(text).unwrap();
            assert!(
                why.starts_with(&format!("synchronous_standby_names is '{text}'")) && why.contains(expected),
                "{why}"
            );
        }
    }

    #[test]
    fn a_watcher_that_is_taken_out_leaves_what_was() {
        let without = |text: &str| Standbys::parse(text).unwrap().without("watch").to_string();
        assert_eq!(without("FIRST 1 (\"watch\")"), "");
        assert_eq!(without("ANY 3 (\"watch\", a, b)"), "ANY 2 (\"a\", \"b\")");
        assert_eq!(without("a"), "FIRST 1 (\"a\")");
    }

    #[test]
    fn a_text_that_is_no_list_is_refused() {
        for text in ["FIRST x (a)", "FIRST 1 (a", "a,,b", "\"a", "ANY (a)"] {
            assert_eq!(Standbys::parse(text), None, "{text}");
        }
    }
}
