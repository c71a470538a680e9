//! The place of the store: by the options and the environment, and what is made where there is none.
use crate::program::{Folder, command, ran, serve, thorp};

fn is_there(folder: &Folder, name: &str) -> bool {
    folder.path().join(name).exists()
}

fn with_env(words: &[&str], variables: &[(&str, &str)]) -> crate::program::Ran {
    ran(command().args(words).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn a_reading_command_makes_no_store() {
    let folder = Folder::new();
    let dir = folder.file("typo");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for words in
        [&["get", "a"][..], &["ls"], &["scan"], &["dump", "a"], &["rm", "a"], &["rm", "-r", "a"], &["get", "house/#1"]]
    {
        for dir in [&dir, &folder.file("empty"), &folder.file("no/such/place")] {
            let line = thorp(words.iter().copied().chain(["--dir", dir])).error();
            assert!(line.contains(&format!("there is no store in {dir}")) && line.contains("check the path"), "{line}");
        }
    }
    assert!(!is_there(&folder, "typo") && !is_there(&folder, "no"));
    assert_eq!(std::fs::read_dir(folder.path().join("empty")).unwrap().count(), 0);
}

#[test]
fn a_writing_command_makes_the_directory_and_not_those_above() {
    let folder = Folder::new();
    let file = folder.write("a.jsonl", "{\"id\": 1}\n");
    let deep = folder.file("no/store");
    for words in [
        &["put", "a", "1", "--dir", &deep][..],
        &["load", &file, "--into", "a", "--key", "id", "--dir", &deep],
        &["serve", "--listen", "127.0.0.1:0", "--dir", &deep],
    ] {
        let line = thorp(words).error();
        assert!(line.contains(&format!("there is no directory '{}'", folder.file("no"))), "{line}");
    }
    let (home, listen) = (folder.file("disk"), folder.file("nbd"));
    thorp(["volume", "create", &home, "--size", "1M"]).ok();
    let listen = format!("unix:{listen}");
    for words in [
        &["volume", "attach", &home, "--listen", &listen, "--dirty", "4M", "--cache", &deep][..],
        &["holder", "--store", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--room", "64M", "--dir", &deep],
        &["serve", "--listen", "127.0.0.1:0", "--dir", &folder.file("served"), "--volumes", &deep],
    ] {
        let line = thorp(words).error();
        assert!(line.contains(&format!("there is no directory '{}'", folder.file("no"))), "{words:?}: {line}");
    }
    assert!(!is_there(&folder, "no"));
    for words in [&["put", "a", "not JSON"][..], &["put", "a//b", "1"], &["put", &"a".repeat(1100), "1"]] {
        let dir = folder.file("wrong");
        assert_ne!(thorp(words.iter().copied().chain(["--dir", &dir])).code, Some(0), "{words:?}");
    }
    assert!(!is_there(&folder, "wrong"), "what is wrong with a document shows before there is a store");
    thorp(["put", "a", "1", "--dir", &folder.file("store")]).ok();
    // A path of one name, as in a shell's working directory.
    let here = command().args(["put", "a", "1", "--dir", "here"]).current_dir(folder.path()).output().unwrap();
    ran(here).ok();
    assert!(is_there(&folder, "store/thorp-store") && is_there(&folder, "here/thorp-store"));
}

#[test]
fn a_store_that_cannot_listen_is_not_made() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let line = thorp(["serve", "--dir", &folder.file("other"), "--listen", &address]).error();
    assert!(line.contains(&format!("cannot listen on {address}")), "{line}");
    assert!(!is_there(&folder, "other"));
}

#[test]
fn a_name_to_listen_on() {
    let folder = Folder::new();
    let listen = ["serve", "--json", "--until-stdin-closes", "--listen", "localhost:0", "--dir"];
    // Standard input has ended already: the store closes when it is ready.
    let told = thorp(listen.iter().copied().chain([&*folder.file("store")])).ok();
    let ready: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert!(ready["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{told}");
    assert!(thorp(["get", "a", "--dir", &folder.file("store")]).error().contains("no document"));
}

#[test]
fn the_environment_says_where_the_store_is_unless_an_option_does() {
    let folder = Folder::new();
    let server = serve(&folder);
    let (address, dir, nobody) = (server.address().to_string(), folder.file("embedded"), "127.0.0.1:1");
    thorp(["put", "where", "\"server\"", "--server", &address]).ok();
    thorp(["put", "where", "\"dir\"", "--dir", &dir]).ok();
    let get = |more: &[&str], variables: &[(&str, &str)]| {
        let words: Vec<_> = ["get", "where"].iter().chain(more).copied().collect();
        with_env(&words, variables)
    };
    assert_eq!(get(&[], &[("THORP_SERVER", &address)]).ok(), "\"server\"\n");
    assert_eq!(get(&[], &[("THORP_DIR", &dir)]).ok(), "\"dir\"\n");
    assert_eq!(get(&["--dir", &dir], &[("THORP_SERVER", nobody)]).ok(), "\"dir\"\n");
    assert_eq!(get(&["--server", &address], &[("THORP_SERVER", nobody), ("THORP_DIR", &dir)]).ok(), "\"server\"\n");
    assert_eq!(get(&[], &[("THORP_SERVER", &address), ("THORP_DIR", "")]).ok(), "\"server\"\n", "empty is not set");
    let both = get(&[], &[("THORP_SERVER", &address), ("THORP_DIR", &dir)]).usage();
    assert!(both.contains("both THORP_SERVER and THORP_DIR are set"), "{both}");
    with_env(&["status"], &[("THORP_SERVER", &address)]).ok();
    with_env(&["status", &address], &[("THORP_SERVER", nobody)]).ok();
    // A hint is for the same shell: it does not repeat what the environment says.
    let hint = with_env(&["get", "nothing"], &[("THORP_DIR", &dir)]).error();
    assert!(hint.contains("`thorp ls`"), "{hint}");
}
