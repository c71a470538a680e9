//! Circles between the files of a crate: files that use each other, directly or by way of others.
//!
//! A file uses another if a path in its code leads there: `crate::`, `super::` and `self::` paths and those of modules
//! that it declares, in a `use` or in place. A path to an item that a module re-exports (`pub use module::Item`) leads
//! to where that comes from, and a re-export by itself uses nothing. The uses that a module makes of the modules in it
//! are left out, since it is made of them; what they use of it counts. Left out are also tests, which may look
//! anywhere. Methods of one type that are in several files and call each other through `self` are looked at for the
//! types that are named here.

use super::text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many circles each crate has that is not rid of them yet. Crates that are not named here have none.
const STATED: &[(&str, usize)] = &[];

/// Types whose files call each other's methods in one direction only: a file's methods can be read knowing those below.
const ONE_WAY: &[(&str, &str)] = &[("crates/objects/client", "Client"), ("crates/objects/redirector", "Redirector")];

/// Checks every crate against what is stated, and prints the circles that there are.
pub(super) fn check(files: &[PathBuf]) -> Vec<String> {
    let mut crates = BTreeMap::<&str, Vec<(Vec<String>, String)>>::new();
    for file in files {
        if let Some((name, module)) = module(file) {
            crates.entry(name).or_default().push((module, text(file).unwrap_or_default()));
        }
    }
    let circles: BTreeMap<&str, Vec<String>> = crates.iter().map(|(name, files)| (*name, circles(files))).collect();
    for (name, circle) in circles.iter().flat_map(|(name, circles)| circles.iter().map(move |circle| (name, circle))) {
        println!("{name}/src: a circle: {circle}");
    }
    let count = circles.iter().map(|(name, circles)| (*name, circles.len()));
    let both_ways = ONE_WAY.iter().flat_map(|(name, of)| {
        let circles = crates.get(name).map(|files| circles_of_methods(files, of)).unwrap_or_default();
        circles.into_iter().map(move |circle| format!("{name}/src: methods of `{of}` call in a circle: {circle}"))
    });
    count.filter_map(|(name, count)| compare(name, count, STATED)).chain(both_ways).collect()
}

fn compare(name: &str, count: usize, stated: &[(&str, usize)]) -> Option<String> {
    let stated = stated.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
    let what = if count > stated { "take the new one apart" } else { "state the new number in tidy/circles.rs" };
    (count != stated).then(|| format!("{name}/src: {count} circles between files, {stated} are stated: {what}"))
}

/// The folder of a source file's crate, and the module that the file is; none for tests.
fn module(file: &Path) -> Option<(&str, Vec<String>)> {
    let (name, path) = file.to_str()?.split_once("/src/").filter(|(name, _)| name.starts_with("crates/"))?;
    let mut module: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests" || part == "bin") {
        return None;
    }
    let is_root = module.len() == 1 && matches!(&*module[0], "lib" | "main");
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some((name, module))
}

/// The circles among the files of one crate, each as a list of modules.
fn circles(files: &[(Vec<String>, String)]) -> Vec<String> {
    let mut modules = BTreeMap::<&[String], File>::new();
    for (module, text) in files {
        // A crate with both a library and a program has two roots; they count as one.
        modules.entry(module).or_default().read(module, text);
    }
    circles_in(&modules.iter().map(|(module, file)| (*module, used(module, file, &modules))).collect())
}

/// The circles among the files in which a type has methods, by the calls through `self`.
fn circles_of_methods(files: &[(Vec<String>, String)], of: &str) -> Vec<String> {
    let methods: Vec<_> = files.iter().map(|(module, text)| (&module[..], Methods::read(text, of))).collect();
    let used = |module: &[String], called: &BTreeSet<&str>| {
        let others = methods.iter().filter(|(other, there)| *other != module && !called.is_disjoint(&there.declared));
        others.map(|(other, _)| *other).collect()
    };
    circles_in(&methods.iter().map(|(module, here)| (*module, used(module, &here.called))).collect())
}

/// The circles of files that use each other.
fn circles_in(uses: &BTreeMap<&[String], BTreeSet<&[String]>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for module in uses.keys() {
        let from = reached(module, uses);
        let circle: Vec<_> = from.iter().copied().filter(|other| reached(other, uses).contains(module)).collect();
        if circle.len() > 1 && circle.iter().all(|module| seen.insert(*module)) {
            found.push(circle.iter().map(|module| name(module)).collect::<Vec<_>>().join(", "));
        }
    }
    found
}

fn name(module: &[String]) -> String {
    if module.is_empty() { "the root".into() } else { module.join("::") }
}

/// Everything that a module uses, directly or by way of others.
fn reached<'a>(module: &'a [String], uses: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>) -> BTreeSet<&'a [String]> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(module) = next.pop() {
        next.extend(uses[module].iter().filter(|other| reached.insert(**other)));
    }
    reached
}

/// The modules outside of a module that the paths of its file lead to.
fn used<'a>(module: &[String], file: &File, modules: &BTreeMap<&'a [String], File>) -> BTreeSet<&'a [String]> {
    let targets = file.paths.iter().filter_map(|path| target(path, modules, &mut BTreeSet::new()));
    targets.filter(|target| !target.starts_with(module)).collect()
}

/// The module that a path from the root leads to.
fn target<'a>(
    path: &[String],
    modules: &BTreeMap<&'a [String], File>,
    seen: &mut BTreeSet<Vec<String>>,
) -> Option<&'a [String]> {
    let depth = (0..=path.len()).rev().find(|&depth| modules.contains_key(&path[..depth]))?;
    let (module, file) = modules.get_key_value(&path[..depth])?;
    let Some(item) = path.get(depth) else { return Some(module) };
    if !seen.insert(path.to_vec()) {
        return Some(module);
    }
    let rest = &path[depth + 1..];
    let reexport = file.reexports.iter().find(|(name, _)| name == item).map(|(_, from)| [from, rest].concat());
    let globs = || {
        let all = file.reexports.iter().filter(|(name, _)| name == "*");
        all.map(|(_, from)| [from, std::slice::from_ref(item), rest].concat()).find(|path| {
            modules.get(&path[..path.len() - rest.len() - 1]).is_some_and(|file| file.items.contains(item))
        })
    };
    reexport.or_else(globs).and_then(|path| target(&path, modules, seen)).or(Some(module))
}

/// The relations of a file to others: paths from the root.
#[derive(Debug, Default)]
struct File {
    paths: Vec<Vec<String>>,
    /// Names, or `*`, and where they come from.
    reexports: Vec<(String, Vec<String>)>,
    /// The names that it declares.
    items: BTreeSet<String>,
}

impl File {
    fn read(&mut self, module: &[String], text: &str) {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let tokens = tokens(code);
        let children: BTreeSet<&str> = tokens.windows(2).filter(|two| two[0] == "mod").map(|two| two[1]).collect();
        self.items.extend(tokens.windows(2).filter(|two| DECLARES.contains(&two[0])).map(|two| two[1].to_owned()));
        // Where the inline modules of the file end, by the depth of their braces: `super` means the file in them.
        let (mut depth, mut inline, mut at) = (0, Vec::new(), 0);
        while let Some(&token) = tokens.get(at) {
            let before = at.checked_sub(1).map_or("", |before| tokens[before]);
            at += 1;
            match token {
                "{" => {
                    depth += 1;
                    if at > 2 && tokens[at - 3] == "mod" {
                        inline.push(depth);
                    }
                }
                "}" => {
                    inline.pop_if(|inner| *inner == depth);
                    depth -= 1;
                }
                "use" => {
                    let end = at + tokens[at..].iter().position(|token| *token == ";").unwrap_or(0);
                    let mut found = Vec::new();
                    expand(&mut tokens[at..end].iter().copied().peekable(), &mut Vec::new(), &mut found);
                    let is_public = before == "pub" || before == ")";
                    for (path, name) in found {
                        let Some(path) = from_root(&path, module, &children, inline.len()) else { continue };
                        if is_public && inline.is_empty() {
                            self.reexports.push((name, path));
                        } else {
                            self.paths.push(path);
                        }
                    }
                    at = end;
                }
                start if before != "::" && tokens.get(at) == Some(&"::") => {
                    let mut path = vec![start.to_owned()];
                    while tokens.get(at) == Some(&"::") && tokens.get(at + 1).is_some_and(|next| is_name(next)) {
                        path.push(tokens[at + 1].to_owned());
                        at += 2;
                    }
                    // `pub(in crate::module)` says who may use, not what is used.
                    let is_visibility = before == "in" && at > path.len() * 2 && tokens[at - path.len() * 2 - 1] == "(";
                    self.paths.extend(from_root(&path, module, &children, inline.len()).filter(|_| !is_visibility));
                }
                _ => {}
            }
        }
    }
}

/// The methods of one type in one file.
#[derive(Debug, Default)]
struct Methods<'a> {
    declared: BTreeSet<&'a str>,
    /// Those that are called on `self` there.
    called: BTreeSet<&'a str>,
}

impl<'a> Methods<'a> {
    fn read(text: &'a str, of: &str) -> Self {
        let mut methods = Self::default();
        let (mut depth, mut is_inside) = (0, false);
        let tokens = tokens(text);
        for (at, token) in tokens.iter().enumerate() {
            match *token {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    is_inside &= depth > 0;
                }
                "impl" if depth == 0 => is_inside = tokens.get(at + 1..at + 3) == Some(&[of, "{"]),
                "fn" if is_inside && depth == 1 => methods.declared.extend(tokens.get(at + 1)),
                "self" if is_inside => {
                    if let Some([".", method, "("]) = tokens.get(at + 1..at + 4) {
                        methods.called.insert(method);
                    }
                }
                _ => {}
            }
        }
        methods
    }
}

/// The words before the name of an item.
const DECLARES: [&str; 8] = ["struct", "enum", "trait", "fn", "type", "const", "static", "mod"];

/// Makes a path one from the root; none if it leads out of the crate, or nowhere.
fn from_root(path: &[String], module: &[String], children: &BTreeSet<&str>, inline: usize) -> Option<Vec<String>> {
    // How far up each `super` leads begins at the inline module that the path is in.
    let (mut base, mut rest, mut inner) = (module.to_vec(), path, inline);
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        first if inline == 0 && children.contains(first) => return Some([&base, rest].concat()),
        _ => return None,
    }
    while let Some("super") = rest.first().map(String::as_str) {
        if inner > 0 {
            inner -= 1;
        } else {
            base.pop()?;
        }
        rest = &rest[1..];
    }
    Some([&base, rest].concat())
}

/// The paths of a `use`, each with the name that it brings.
fn expand<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    prefix: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) {
    let depth = prefix.len();
    let mut is_group = false;
    while let Some(token) = tokens.next() {
        match token {
            "::" => {}
            "{" => {
                is_group = true;
                while tokens.peek().is_some_and(|next| *next != "}") {
                    expand(tokens, prefix, found);
                }
                tokens.next();
            }
            "as" => {
                let name = tokens.next().unwrap_or_default().to_owned();
                found.push((prefix.clone(), name));
                is_group = true;
            }
            "*" => {
                found.push((prefix.clone(), "*".into()));
                is_group = true;
            }
            name => prefix.push(name.to_owned()),
        }
        match tokens.peek() {
            Some(&",") => {
                tokens.next();
                break;
            }
            Some(&"}") => break,
            _ => {}
        }
    }
    if !is_group && prefix.len() > depth {
        // `module::{self}` brings the module.
        let path: Vec<String> = prefix
            .iter()
            .enumerate()
            .filter(|(at, part)| *at == 0 || *part != "self")
            .map(|(_, part)| part.clone())
            .collect();
        found.push((path.clone(), path.last().cloned().unwrap_or_default()));
    }
    prefix.truncate(depth);
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and single marks; comments and what is in quotes are left out.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("r#\"") {
            rest.find("\"#").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            character(rest)
        } else if is_name(rest) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(&rest[..end]);
            end
        } else if rest.starts_with("::") {
            tokens.push(&rest[..2]);
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// How long the text in quotes is that `code` begins with.
fn quoted(code: &str) -> usize {
    let mut escaped = false;
    for (at, c) in code.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    code.len()
}

/// How long the character is that `code` begins with, or the mark of a lifetime.
fn character(code: &str) -> usize {
    let mut chars = code.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => code[2..].find('\'').map_or(code.len(), |end| end + 3).max(4),
        (_, Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let modules = files.iter().map(|(file, text)| {
            let path = format!("crates/x/src/{file}.rs");
            (module(Path::new(&path)).unwrap().1, (*text).to_owned())
        });
        circles(&modules.collect::<Vec<_>>())
    }

    #[test]
    fn methods_that_call_each_other_through_self_are_a_circle() {
        let circles = |b: &str| {
            let a = "impl X {\n fn f(&self) { self.g(); self.part.h(); } }\nimpl Part { fn h(&self) { self.f() } }";
            let files = [("a", a), ("b", b)].map(|(module, text)| (vec![module.to_owned()], text.to_owned()));
            circles_of_methods(&files, "X")
        };
        assert!(circles("impl X { fn g(&self) { self.i(); f(); } fn i(&self) {} }").is_empty());
        assert_eq!(circles("impl X { fn g(&self) { if true { self.f() } } }"), ["a, b"]);
        assert!(circles("impl X { fn g(&self) {} } impl Y { fn i(&self) { self.f() } }").is_empty(), "another type");
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let one_way = [("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "pub struct B;")];
        assert!(found(&one_way).is_empty());
        let both = [("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "fn f() { crate::a::g() }")];
        assert_eq!(found(&both), ["a, b"]);
        let by_way_of = [("a", "use super::b::B;"), ("b", "use super::{c::{C, D}, e};"), ("c", "use crate::a;")];
        assert_eq!(found(&by_way_of), ["a, b, c"]);
        let two = [("a", "use crate::b;"), ("b", "use crate::a;"), ("c", "use crate::d;"), ("d", "use crate::c;")];
        assert_eq!(found(&two), ["a, b", "c, d"]);
    }

    #[test]
    fn a_module_is_made_of_those_in_it() {
        let parent = ("a", "mod b; mod c; fn f() { b::g() } pub fn h() {}");
        assert!(found(&[parent, ("a/b", "use super::h;"), ("a/c", "use super::b;")]).is_empty());
        assert_eq!(found(&[parent, ("a/b", "use super::c;"), ("a/c", "use super::b;")]), ["a::b, a::c"]);
        let by_the_parent = [("a", "use crate::d;"), ("a/b", ""), ("d", "use crate::a::h;")];
        assert_eq!(found(&by_the_parent), ["a, d"]);
    }

    #[test]
    fn a_re_exported_item_is_of_the_module_that_it_comes_from() {
        let files = [("lib", "mod a; mod b; pub use b::B; pub use a::A;"), ("a", "use crate::B;"), ("b", "struct B;")];
        assert!(found(&files).is_empty());
        let back = [("lib", "mod a; mod b; pub use b::{B as C};"), ("a", "use crate::C;"), ("b", "use crate::a;")];
        assert_eq!(found(&back), ["a, b"]);
        let all = [("lib", "mod a; mod b; pub use b::*;"), ("a", "use crate::B;"), ("b", "use crate::a; struct B;")];
        assert_eq!(found(&all), ["a, b"]);
    }

    #[test]
    fn tests_comments_quotes_and_inline_modules_use_nothing() {
        let text = "// crate::b\nconst C: &str = \"crate::b\";\nmod inner { use super::C; }\n\
                    #[cfg(test)]\nmod tests {\n use crate::b;\n}";
        assert!(found(&[("a", text), ("b", "use crate::a::C;")]).is_empty());
        let after = "fn f(c: char) -> bool { c == '\"' || c == '\\'' } fn g<'a>() { crate::b::h() }";
        assert_eq!(found(&[("a", after), ("b", "use crate::a;")]), ["a, b"], "what follows a quote is code");
    }

    #[test]
    fn a_number_that_is_not_what_is_stated_is_told() {
        assert_eq!(compare("a", 0, &[]), None);
        assert_eq!(compare("a", 1, &[("a", 1)]), None);
        assert!(compare("a", 1, &[]).is_some_and(|line| line.contains("take the new one apart")));
        assert!(compare("a", 1, &[("a", 2)]).is_some_and(|line| line.contains("state the new number")));
    }
}
