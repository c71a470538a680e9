//! Prometheus' text format, read as strictly as its specification allows.

use std::collections::{BTreeMap, BTreeSet};

/// The values of series, by name and labels as they are written.
pub(super) type Series = BTreeMap<String, f64>;

/// Reads a scrape.
///
/// # Errors
/// The first line that is malformed, and why.
pub(super) fn parse(text: &str) -> Result<Series, String> {
    let (mut series, mut seen, mut family) = (Series::new(), BTreeSet::new(), Family::default());
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
            if !is_name(name, true) || help.trim().is_empty() || !seen.insert(name.to_owned()) {
                return Err(wrong("no name, no help, or a family that was there before"));
            }
            family = Family { name: name.to_owned(), kind: String::new() };
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
            if name != family.name || !family.kind.is_empty() || !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(wrong("a type without its help, a second one, or one that does not exist"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err(wrong("counters end in _total, and nothing else does"));
            }
            kind.clone_into(&mut family.kind);
        } else {
            let (key, name, value) = sample(line).ok_or_else(|| wrong("a malformed sample"))?;
            if !family.has(name) {
                return Err(wrong("a sample without its type before it"));
            }
            if family.kind != "gauge" && value < 0.0 {
                return Err(wrong("a negative count"));
            }
            if series.insert(key.to_owned(), value).is_some() {
                return Err(wrong("a series that was there before"));
            }
        }
    }
    check_histograms(&series)?;
    Ok(series)
}

#[derive(Default)]
struct Family {
    name: String,
    kind: String,
}

impl Family {
    fn has(&self, sample: &str) -> bool {
        matches!(
            (sample.strip_prefix(self.name.as_str()), self.kind.as_str()),
            (Some(""), "counter" | "gauge") | (Some("_bucket" | "_sum" | "_count"), "histogram")
        )
    }
}

fn is_name(name: &str, with_colon: bool) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || (with_colon && byte == b':');
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_first) && bytes.all(|byte| is_first(byte) || byte.is_ascii_digit())
}

/// A sample's series, its name and its value.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let name_end = line.find(['{', ' '])?;
    let name = &line[..name_end];
    let series_end = name_end + if line[name_end..].starts_with('{') { labels(&line[name_end + 1..])? + 2 } else { 0 };
    let value = line[series_end..].strip_prefix(' ')?;
    let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    is_name(name, true).then_some((&line[..series_end], name, value))
}

/// Returns the length of the labels in front of a closing brace, if they are well formed and each has another name.
fn labels(text: &str) -> Option<usize> {
    let (mut at, mut names) = (0, BTreeSet::new());
    loop {
        let (name, _) = text[at..].split_once("=\"")?;
        if !is_name(name, false) || !names.insert(name) {
            return None;
        }
        at += name.len() + 2 + value(&text[at + name.len() + 2..])? + 1;
        match text.as_bytes().get(at)? {
            b'}' => return Some(at),
            b',' => at += 1,
            _ => return None,
        }
    }
}

/// Returns the length of a label's value in front of its closing quotation mark.
fn value(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => drop(bytes.next().filter(|(_, byte)| br#"\"n"#.contains(byte))?),
            _ => {}
        }
    }
    None
}

/// Checks that buckets grow, and that the last one is infinite and has all samples.
fn check_histograms(series: &Series) -> Result<(), String> {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (key, count) in series {
        let Some((name, rest)) = key.split_once("_bucket{") else { continue };
        let (labels, bound) = rest.trim_end_matches('}').split_once("le=\"").ok_or("a bucket without a bound")?;
        let bound = bound.trim_end_matches('"').parse().map_err(|_| format!("a bound that is no number: {key}"))?;
        let of = format!("{name}_count{{{}}}", labels.trim_end_matches(','));
        buckets.entry(of).or_default().push((bound, *count));
    }
    for (all, mut counts) in buckets {
        counts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let is_growing = counts.windows(2).all(|two| two[0].1 <= two[1].1);
        let is_whole =
            counts.last().is_some_and(|(bound, count)| bound.is_infinite() && series.get(&all) == Some(count));
        let has_sum = series.contains_key(&all.replacen("_count{", "_sum{", 1));
        if !is_growing || !is_whole || !has_sum {
            return Err(format!("the buckets of {all} are {counts:?}"));
        }
    }
    Ok(())
}

#[test]
fn malformed_scrapes_are_found() {
    let gauge = "# HELP a b\n# TYPE a gauge\n";
    assert_eq!(parse(&format!("{gauge}a{{x=\"\\\"}}\",y=\"\"}} 1.5\na 2\n")).unwrap().len(), 2);
    for samples in
        ["a 1\na 1\n", "b 1\n", "a{x=1} 1\n", "a{x=\"\\x\"} 1\n", "a{x=\"\",x=\"\"} 1\n", "a{} 1\n", "a NaN\n"]
    {
        assert!(parse(&format!("{gauge}{samples}")).is_err(), "{samples}");
    }
    for text in ["a 1\n", "# TYPE a gauge\na 1\n", "# HELP a b\na 1\n", "# HELP a b\n# TYPE a counter\na 1\n"] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse(&format!("{gauge}{gauge}")).is_err() && parse(&format!("{gauge}a 1")).is_err());
    let histogram = |rest: &str| {
        let head = "# HELP h b\n# TYPE h histogram\nh_bucket{by=\"c\",le=\"1\"} 2\n";
        parse(&format!("{head}h_bucket{{by=\"c\",le=\"+Inf\"}} {rest}\nh_sum{{by=\"c\"}} 3\n"))
    };
    assert!(histogram("3\nh_count{by=\"c\"} 3").is_ok());
    assert!(histogram("1\nh_count{by=\"c\"} 1").is_err() && histogram("3\nh_count{by=\"c\"} 2").is_err());
}
