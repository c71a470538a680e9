//! The access log, as those read it who count visitors.

use crate::harness::{Client, Origin, PATIENCE, config, response};
use proxy::{AccessLogConfig, AccessLogFormat, Proxy};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A file in a folder that is removed behind the test.
struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("thorp-log-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("access.log")
    }
}

/// The lines of a file, when there are `count` of them.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.matches('\n').count() >= count {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(begun.elapsed() < PATIENCE, "there are no {count} lines: {text}");
        std::thread::yield_now();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(log: &Log, format: AccessLogFormat) -> (Proxy, proxy::Config) {
    let origin = Origin::start(|request| match request.uri().path() {
        "/none" => response(404, &[], ""),
        _ => response(200, &[("cache-control", "max-age=60")], "hello"),
    });
    let mut config = config(origin.address);
    config.access_log = Some(AccessLogConfig { path: log.path(), format });
    config.policy.ignored_query = vec!["utm_*".parse().unwrap()];
    (Proxy::start(config.clone()).unwrap(), config)
}

#[test]
fn a_combined_line_is_what_log_readers_expect() {
    let log = Log::new("combined");
    let (proxy, config) = start(&log, AccessLogFormat::Combined);
    let mut client = Client::connect(proxy.address());
    client.ask("GET", "/page?utm_a=1", "User-Agent: \"quoted\" \u{e9}\r\nReferer: http://else.example/\r\n");
    client.get("/none");
    client.ask("GET", "/page", "Host: two\r\n");
    let found = lines(&log.path(), 3);
    let parts: Vec<Vec<&str>> = found.iter().map(|line| line.split('"').collect()).collect();
    assert_eq!(parts[0][1], "GET /page?utm_a=1 HTTP/1.1", "as the client has sent it: {found:?}");
    assert_eq!(parts[0][2], " 200 5 ");
    assert_eq!(&parts[0][3..], ["http://else.example/", " ", "\\x22quoted\\x22 \\xC3\\xA9", ""]);
    let head: Vec<&str> = parts[0][0].split(' ').collect();
    assert_eq!((head[0], head[1], head[2], head[4]), ("127.0.0.1", "-", "-", "+0000]"));
    assert_eq!((parts[1][2], &parts[1][3..]), (" 404 0 ", &["-", " ", "-", ""][..]));
    assert_eq!(parts[2][2].split(' ').nth(1), Some("400"), "a refused request is one, too: {found:?}");
    // A program that rotates logs renames the file and has the proxy open it again.
    let renamed = log.0.join("access.log.1");
    std::fs::rename(log.path(), &renamed).unwrap();
    proxy.reload(config).unwrap();
    client.get("/page");
    let counts = [lines(&log.path(), 1), lines(&renamed, 3)].map(|lines| lines.len());
    assert_eq!(counts, [1, 3]);
}

#[test]
fn a_json_line_tells_what_the_cache_has_done() {
    let log = Log::new("json");
    let (proxy, _) = start(&log, AccessLogFormat::Json);
    let mut client = Client::connect(proxy.address());
    client.get("/page");
    client.get("/page");
    client.ask("HEAD", "/page", "");
    let found = lines(&log.path(), 3);
    let answers: Vec<serde_json::Value> = found.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let status =
        |line: &serde_json::Value| line["cache_status"].as_str().unwrap().split("; ttl").next().unwrap().to_owned();
    assert_eq!(answers.iter().map(status).collect::<Vec<_>>(), ["thorp; fwd=uri-miss", "thorp; hit", "thorp; hit"]);
    assert_eq!(answers.iter().map(|line| line["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 5, 0]);
    let first = &answers[0];
    for (name, expected) in [("client", "127.0.0.1"), ("method", "GET"), ("target", "/page"), ("host", "shop.example")]
    {
        assert_eq!(first[name], expected);
    }
    assert!(first["seconds"].as_f64().unwrap() > 0.0 && first["time"].as_str().unwrap().ends_with('Z'), "{first}");
    let mut config = config("127.0.0.1:1".parse().unwrap());
    config.access_log = Some(AccessLogConfig { path: log.0.join("none/there"), format: AccessLogFormat::Json });
    assert!(Proxy::start(config).unwrap_err().to_string().contains("access log"));
}
