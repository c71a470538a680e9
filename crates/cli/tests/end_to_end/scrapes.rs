//! Every program that runs until it is stopped has the same listener for its operators.

mod prometheus;

use crate::groups::eventually;
use crate::program::{Folder, thorp, try_start};
use fixtures::Process;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A program and one of its metrics.
struct Program {
    name: &'static str,
    process: Process,
    metric: &'static str,
}

/// The status and the body of an answer.
fn ask(process: &Process, line: &str, fields: &str) -> (u16, String) {
    let admin = process.ready()["admin"].as_str().unwrap_or_else(|| panic!("it does not listen: {}", process.ready()));
    let mut stream = TcpStream::connect(admin).unwrap();
    let host = if fields.contains("Host:") { String::new() } else { format!("Host: {admin}\r\n") };
    write!(stream, "{line} HTTP/1.1\r\n{host}{fields}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn health(process: &Process) -> (u16, String) {
    ask(process, "GET /health", "")
}

fn name(refused: &(u16, String)) -> (u16, Value) {
    (refused.0, serde_json::from_str::<Value>(&refused.1).unwrap()["refused"].clone())
}

/// All programs of a site. The store is apart: it comes to an end first.
struct Programs {
    folder: Folder,
    store: Program,
    others: Vec<Program>,
}

impl Programs {
    fn start() -> Self {
        let folder = Folder::new();
        let file = |name: &str| folder.file(name);
        let admin = ["--admin", "127.0.0.1:0"];
        let start = |name, words: &[&str], metric| {
            let process = try_start(&[words, &admin[..]].concat());
            Program { name, process: process.unwrap_or_else(|why| panic!("{name}: {why}")), metric }
        };
        let any = ["--listen", "127.0.0.1:0"];
        let serve = ["serve", "--dir", &file("store"), "--volumes", &file("homes"), "--leased", "0"];
        let store = start("serve", &[&serve[..], &any].concat(), "thorp_store_commits_total");
        let address = store.process.ready()["listen"].as_str().unwrap().to_owned();
        thorp(["volume", "create", "v", "--store", &address, "--size", "8M", "--copies", "2"]).ok();
        let nbd = format!("unix:{}", file("nbd"));
        let volume = ["volume", "attach", "v", "--store", &address, "--cache", &file("cache"), "--listen", &nbd];
        let group = ["group", "--name", "site", "--store", &address];
        let holder = ["holder", "--store", &address, "--dir", &file("copies"), "--room", "64M", "--domain", "rack"];
        std::fs::create_dir(file("www")).unwrap();
        folder.write("www/index.html", "<p>");
        thorp(["publish", &file("www"), "shop", "--dir", &file("site")]).ok();
        let others = vec![
            start("group", &[&group[..], &any].concat(), "thorp_redirector_members{group=\"site\"}"),
            start("home", &["home", "--socket", &file("home")], "thorp_hub_updates_released_total"),
            start("watch", &[&["watch", &format!("thorp://{address}")][..], &any].concat(), "thorp_watch_store_spaces"),
            start("verify", &["verify", &file("verify")], "thorp_verify_keys"),
            start("holder", &[&holder[..], &any].concat(), "thorp_holder_room_bytes"),
            start(
                "volume",
                &[&volume[..], &["--domain", "host", "--dirty", "8M", "--spare", "0"]].concat(),
                "thorp_volume_size_bytes{volume=\"v\"}",
            ),
            start(
                "proxy",
                &[&["proxy", "--origin", "http://127.0.0.1:1"][..], &any].concat(),
                "thorp_proxy_requests_total",
            ),
            start(
                "site",
                &[&["site", "serve", "shop", "--dir", &file("site")][..], &any].concat(),
                "thorp_site_requests_total{site=\"shop\"}",
            ),
        ];
        Self { folder, store, others }
    }

    fn all(&self) -> impl Iterator<Item = &Program> {
        [&self.store].into_iter().chain(&self.others)
    }
}

#[test]
fn every_program_answers_its_operators_alike() {
    let mut programs = Programs::start();
    let page = std::fs::read_to_string("../../docs/metrics.md").unwrap();
    assert_eq!(programs.all().count(), 9);
    for Program { name: program, process, metric } in programs.all() {
        eventually(&format!("{program} is healthy"), || health(process).0 == 200);
        let (status, body) = health(process);
        let healthy: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, healthy), (200, json!({"healthy": true, "troubles": []})), "{program}");
        let (status, body) = ask(process, "GET /status", "");
        let tables: Value = serde_json::from_str(&body).unwrap();
        assert!(status == 200 && tables.as_object().is_some_and(|it| !it.is_empty()), "{program}: {body}");

        let (status, text) = ask(process, "GET /metrics", "");
        let series = prometheus::parse(&text).unwrap_or_else(|why| panic!("{program}: {why}\n{text}"));
        assert!(status == 200 && series.contains_key(*metric), "{program} has no {metric}:\n{text}");
        for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            assert!(page.contains(&format!("| `{family}` |")), "{program}: {family} is not documented");
        }

        let refused = |line, fields| name(&ask(process, line, fields));
        assert_eq!(refused("POST /reload", ""), (404, json!("nothing-to-reload")), "{program}");
        assert_eq!(refused("GET /metrics", "Host: rebound.example\r\n"), (403, json!("web-page")), "{program}");
        assert_eq!(refused("GET /health", "Origin: http://evil.example\r\n"), (403, json!("web-page")), "{program}");
        // An address gives a view only: the commands of a volume need access to its socket.
        for line in ["GET /", "POST /status", "POST /resize", "POST /bring-home", "GET /look"] {
            assert_eq!(refused(line, ""), (404, json!("no-such-request")), "{program}: {line}");
        }
    }
    let has = |name: &str, sample: &str| {
        let Program { process, .. } = programs.others.iter().find(|it| it.name == name).unwrap();
        let text = ask(process, "GET /metrics", "").1;
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    };
    has("volume", "thorp_volume_size_bytes{volume=\"v\"} 8388608");
    has("watch", "thorp_watch_store_state{state=\"watching\"} 1");
    has("group", "thorp_redirector_state{group=\"site\",state=\"leads\"} 1");

    let address = programs.store.process.ready()["listen"].as_str().unwrap().to_owned();
    programs.store.process.kill().unwrap();
    let needing = ["group", "watch", "holder", "volume"];
    for Program { name, process, .. } in programs.others.iter().filter(|it| needing.contains(&it.name)) {
        eventually(&format!("{name} lacks its store"), || {
            let (status, body) = health(process);
            let names_it = body.contains("the store") || body.contains(&address);
            status == 503 && body.contains("\"healthy\":false") && names_it
        });
        prometheus::parse(&ask(process, "GET /metrics", "").1).unwrap();
    }
    for Program { name, process, .. } in programs.others.iter().filter(|it| !needing.contains(&it.name)) {
        assert_eq!(health(process).0, 200, "{name} needs no store");
    }
    drop(programs.folder);
}

#[test]
fn an_operator_elsewhere_brings_a_token() {
    let folder = Folder::new();
    let (socket, token) = (folder.file("home"), folder.write("token", "s3cret\n"));
    let home = |more: &[&str]| try_start(&[&["home", "--socket", &socket], more].concat());
    let refused = home(&["--admin", "0.0.0.0:0"]).err().unwrap();
    assert!(refused.contains("need a token"), "{refused}");
    let refused = home(&["--token-file", &token]).err().unwrap();
    assert!(refused.contains("--token-file is for --admin"), "{refused}");
    let home = home(&["--admin", "127.0.0.1:0", "--token-file", &token]).unwrap();
    assert_eq!(name(&ask(&home, "GET /status", "")), (401, json!("no-token")));
    assert_eq!(name(&ask(&home, "GET /status", "Authorization: Bearer s3cre\r\n")), (401, json!("no-token")));
    assert_eq!(ask(&home, "GET /status", "Authorization: Bearer s3cret\r\n").0, 200);
}

#[test]
fn a_proxy_reads_its_settings_again_for_an_operator() {
    let folder = Folder::new();
    let token = folder.write("token", "first\n");
    let write = |text: &str| folder.write("proxy.toml", format!("origin = \"http://127.0.0.1:1\"\n{text}"));
    let words = ["proxy", "--config", &write(""), "--admin", "127.0.0.1:0", "--token-file", &token];
    let proxy = try_start(&[&words[..], &["--listen", "127.0.0.1:0"]].concat()).unwrap();
    let reload = |token: &str| {
        let (status, body) = ask(&proxy, "POST /reload", &format!("Authorization: Bearer {token}\r\n"));
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    assert_eq!(reload("first"), (200, json!({"reloaded": true, "at_next_start": []})));
    write("threads = 1023\n");
    assert_eq!(reload("first"), (200, json!({"reloaded": true, "at_next_start": ["threads"]})));
    write("thread = 2\n");
    let (status, refused) = reload("first");
    assert_eq!((status, &refused["refused"]), (409, &json!("settings-refused")));
    assert!(refused["error"].as_str().unwrap().contains("is 'threads' meant?"), "{refused}");
    // The token is one of the settings.
    write("");
    folder.write("token", "second\n");
    assert_eq!((reload("second").0, reload("first").0, reload("first").0, reload("second").0), (401, 200, 401, 200));
}
