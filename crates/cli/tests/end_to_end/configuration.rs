//! The configuration file of a proxy.

use crate::program::{Folder, program, thorp};
use crate::web::{Proxy, application, get};
use fixtures::{Signal, until};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// The words in which a proxy refuses a configuration file with this text.
fn refusal(text: &str) -> String {
    let folder = Folder::new();
    let file = folder.write("thorp.toml", text);
    let ran = thorp(["proxy", "--config", &file, "--check-config"]);
    assert_eq!(ran.stdout, "", "it is refused: {text}");
    let folder = format!("{}/", folder.path().display());
    ran.stderr.replace(&folder, "").trim_end().trim_start_matches("thorp: ").to_owned()
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line() {
    let origin = "origin = \"http://127.0.0.1:8000\"\n";
    for (text, expected) in [
        ("orgin = \"http://x\"", "thorp.toml:1: 'orgin' is not an option of a proxy: is 'origin' meant?"),
        ("\n[origin]\n", "thorp.toml:2: origin: expected a string or a whole number"),
        ("cache = \"64Q\"", "thorp.toml:1: cache: '64Q': expected bytes, such as 65536, 64M or 1G"),
        ("origin-timeout = 0", "thorp.toml:1: origin-timeout: 0 is not in 1..=3600"),
        ("behind-tls = \"yes\"", "thorp.toml:1: behind-tls: expected true or false"),
        ("listen = \"everywhere\"", "thorp.toml:1: listen: 'everywhere': expected HOST:PORT"),
        ("dependency-field = [\"X-Tags\"]", "expected NAME:list, NAME:spaces or NAME:commas"),
        ("threads = [1, 2]", "thorp.toml:1: threads: expected a string or a whole number"),
        ("config = \"other.toml\"", "thorp.toml:1: 'config' is for the command line alone"),
        ("weak = true\nweak = false", "thorp.toml:2: duplicate key"),
        ("weak", "thorp.toml:1: "),
        ("weak = true", "no origin: say --origin"),
        ("qqq = 1", "`thorp proxy --help` has them"),
    ] {
        let refused = refusal(text);
        assert!(refused.contains(expected), "expected {expected}: {refused}");
    }
    let refused = refusal(&format!("{origin}hub = \"a:1\"\nhub-listen = \"127.0.0.1:0\""));
    assert!(refused.contains("thorp.toml and the command line together: ") && refused.contains("--hub-listen"));
    let refused = refusal(&format!("{origin}hub = \"nowhere\""));
    assert!(refused.contains("cannot start the home: ") && refused.contains("nowhere"), "{refused}");
    let refused = refusal(&format!("{origin}hub-listen = \"0.0.0.0:7420\""));
    assert!(refused.contains("will not listen on 0.0.0.0:7420"), "{refused}");
    let refused = refusal(&format!("{origin}tls-cert = \"absent.pem\"\ntls-key = \"absent.key\""));
    assert!(refused.contains("absent.pem: unreadable"), "{refused}");
    let absent = thorp(["proxy", "--config", "/nowhere/thorp.toml"]).error();
    assert!(absent.contains("/nowhere/thorp.toml: "), "{absent}");
    assert!(refusal(&"#".repeat((1 << 20) + 1)).contains("at most 1048576 bytes"));
}

#[test]
fn a_configuration_that_can_be_used_is_said_to_be() {
    let folder = Folder::new();
    let text = "origin = \"http://127.0.0.1:8000\"\nthreads = 0x2\ndependency-field = [\"X-Tags:spaces\", \"xkey\"]\n\
                weak = true\nbehind-tls = false\ncoding = \"gzip\"\n";
    let file = folder.write("thorp.toml", text);
    let said = thorp(["proxy", "--config", &file, "--check-config"]).ok();
    assert_eq!(said, "a proxy could start with these settings\n");
    // The command line goes before the file.
    let said = thorp(["proxy", "--config", &file, "--check-config", "--origin-ca", "/nowhere"]).usage();
    assert!(said.contains("an origin over TLS"), "{said}");
    let https = ["--origin", "https://127.0.0.1:1", "--origin-ca", "/nowhere"];
    let said = thorp(["proxy", "--config", &file, "--check-config"].into_iter().chain(https)).error();
    assert!(said.contains("/nowhere: unreadable"), "{said}");
}

#[test]
fn settings_change_while_a_proxy_runs() {
    let folder = Folder::new();
    let (one, other) = (application(), application());
    let write = |text: String| folder.write("thorp.toml", text);
    // The addresses in the file are behind those of the command line, which are free ones.
    let file = write(format!("origin = \"{one}\"\nlisten = \"127.0.0.1:1\"\n"));
    let mut proxy = Proxy::start_with(&["--config", &file]);
    let address = proxy.address().to_owned();
    assert!(get(&address).ends_with("asked 0") && get(&address).contains("; hit"));
    let mut reload = |text: String| {
        write(text);
        proxy.process.signal(Signal::HUP).unwrap();
        proxy.line()
    };
    let said = reload(format!("origin = \"{one}\"\ntreads = 2\n"));
    assert_eq!(said["note"], "settings-refused");
    assert!(said["text"].as_str().unwrap().contains("thorp.toml:2: 'treads'"), "{said}");
    assert!(get(&address).contains("; hit"), "nothing has changed");
    let said = reload(format!("origin = \"{other}\"\nthreads = 3\ncache = \"1M\"\n"));
    assert_eq!(said["note"], "settings-changed", "{said}");
    assert_eq!(said["at_next_start"], serde_json::json!(["threads", "cache"]));
    assert!(!get(&address).contains("; hit"), "what is stored is of another origin");
    assert!(get(&address).ends_with("asked 0") && get(&address).contains("; hit"));
    proxy.stop();
}

/// A proxy that would say something is none that ends when nobody listens.
#[test]
fn a_proxy_whose_output_nobody_reads_serves_on() {
    let folder = Folder::new();
    let origins = [application(), application()];
    let write = |origin: &str| folder.write("thorp.toml", format!("origin = \"{origin}\"\n"));
    let file = write(&origins[0]);
    let words = ["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", &file, "--json"];
    let mut proxy = program().command().args(words).arg("--until-stdin-closes").spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let get = || get(ready["listen"].as_str().unwrap());
    // It says that the settings have changed once they have: the second change is one of a proxy that has tried to.
    for origin in origins.iter().rev() {
        while !get().contains("; hit") {}
        write(origin);
        kill_process(Pid::from_child(&proxy), Signal::HUP).unwrap();
        until("the settings are read again", || !get().contains("; hit"));
    }
    drop(proxy.stdin.take());
    assert!(proxy.wait().unwrap().success());
}
