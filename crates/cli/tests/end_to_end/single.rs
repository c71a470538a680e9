//! Documents one by one: put, get, ls, scan, rm, by server and by directory.
use crate::program::{Folder, serve, thorp, thorp_reading};

/// Does the same over a server and in a directory.
fn both_ways(check: impl Fn(&[&str])) {
    let folder = Folder::new();
    let server = serve(&folder);
    check(&["--server", &server.address().to_string()]);
    drop(server);
    check(&["--dir", &folder.file("embedded")]);
}

fn run(words: &[&str], store: &[&str]) -> crate::program::Ran {
    thorp(words.iter().chain(store))
}

#[test]
fn a_document_is_what_was_put() {
    both_ways(|store| {
        run(&["put", "design/wheel", r#"{"mass": 3.10, "big": 123456789012345678901234567890}"#], store).ok();
        let got = run(&["get", "design/wheel"], store).ok();
        assert_eq!(got, "{\"mass\": 3.10, \"big\": 123456789012345678901234567890}\n", "every digit");
        run(&["put", "design/wheel", "[1]"], store).ok();
        assert_eq!(run(&["get", "design/wheel"], store).ok(), "[1]\n", "the second document replaces the first");
        assert_eq!(run(&["put", "a", "null", "--json"], store).ok(), "{\"put\":\"a\"}\n");
        let read = thorp_reading(["put", "lines", "-"].iter().chain(store), "[\n 1,\n \"two\"\n]\n");
        read.ok();
        assert_eq!(run(&["get", "lines"], store).ok(), "[  1,  \"two\" ]\n", "on one line");
        run(&["put", "cold", "-5"], store).ok();
        run(&["put", "colder", "-5.5e1"], store).ok();
        assert_eq!(run(&["scan", "--from", "cold", "--to", "d"], store).ok(), "cold  -5\ncolder  -5.5e1\n");
        thorp_reading(["put", "marked", "-"].iter().chain(store), "\u{feff}7").ok();
        assert_eq!(run(&["get", "marked"], store).ok(), "7\n", "a mark of the byte order is no part of it");
    });
}

#[test]
fn listings_show_what_there_is() {
    both_ways(|store| {
        for (path, document) in [("b/x", "1"), ("b/y/z", "2"), ("b/y/zz", "3"), ("a", "4"), ("b0", "5"), ("b.", "6")] {
            run(&["put", path, document], store).ok();
        }
        assert_eq!(run(&["ls"], store).ok(), "a\nb.\nb/\nb0\n");
        assert_eq!(run(&["ls", "/"], store).ok(), "a\nb.\nb/\nb0\n");
        assert_eq!(run(&["ls", "b"], store).ok(), "x\ny/\n");
        assert_eq!(run(&["ls", "b/"], store).ok(), "x\ny/\n");
        assert_eq!(run(&["scan", "b"], store).ok(), "b/x  1\nb/y/z  2\nb/y/zz  3\n");
        assert_eq!(run(&["scan", "b", "--from", "y/z", "--to", "y/zz"], store).ok(), "b/y/z  2\n");
        assert_eq!(run(&["scan", "--limit", "1"], store).ok(), "a  4\n");
        assert_eq!(run(&["scan", "b", "--limit", "1", "--json"], store).ok(), "{\"path\":\"b/x\",\"document\":1}\n");
    });
}

/// A name is for people to see and for programs to have as it is.
#[test]
fn odd_names() {
    both_ways(|store| {
        let name = "two\nlines\u{1b}[2J\u{9b}2J";
        for path in [name.to_owned(), format!("{name}/in it")] {
            run(&["put", &path, "1"], store).ok();
        }
        let shown = r"two\nlines\u{1b}[2J\u{9b}2J";
        assert_eq!(run(&["ls"], store).ok(), format!("{shown}\n{shown}/\n"));
        assert_eq!(run(&["ls", "-0"], store).ok(), format!("{name}\0{name}/\0"));
        let json: serde_json::Value =
            serde_json::from_str(run(&["ls", "--json"], store).ok().lines().next().unwrap()).unwrap();
        assert_eq!(json["name"], name);
        assert_eq!(run(&["scan"], store).ok(), format!("{shown}  1\n{shown}/in it  1\n"));
        assert_eq!(run(&["get", name], store).ok(), "1\n");
        let wrong = run(&["get", &name.replace("two", "no")], store).error();
        assert!(wrong.contains(r"\u{1b}[2J"), "{wrong}");
    });
}

#[test]
fn a_removed_value_is_gone() {
    both_ways(|store| {
        run(&["put", "note", "true"], store).ok();
        run(&["rm", "note"], store).ok();
        let wrong = run(&["get", "note"], store).error();
        assert!(wrong.contains("there is no document 'note'") && wrong.contains("thorp ls"), "{wrong}");
        let wrong = run(&["rm", "note"], store).error();
        assert!(wrong.contains("there is no document 'note'"), "{wrong}");
    });
}

#[test]
fn a_large_document_comes_back() {
    both_ways(|store| {
        let document = format!("\"{}\"", "0123456789".repeat(500_000));
        thorp_reading(["put", "large", "-"].iter().chain(store), &document).ok();
        assert_eq!(run(&["get", "large"], store).ok().trim_end(), document);
    });
}
