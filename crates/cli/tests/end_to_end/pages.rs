//! The documents say what is true: what is generated from code is fresh, and the command lines in README run.

use crate::designs::SMALL;
use crate::program::{Folder, command, ran, serve, start, thorp};
use crate::web::Proxy;
use crate::{groups, volumes};
use attach::VOLUME_HOMES;
use client::tables::CLIENT;
use fixtures::{Process, Signal};
use machine::metrics::Described;
use net::LINKS;
use pgwatch::WATCH_DATABASE;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use storewatch::WATCH_STORE;
use types::{GoodbyeReason, Refusal};

/// The root of the repository: tests run in the folder of their crate.
fn root() -> PathBuf {
    std::env::current_dir().unwrap().ancestors().nth(2).expect("two folders deep").to_owned()
}

/// `UPDATE=1 cargo test -p thorp-cli --test end_to_end pages::the_page` writes the pages again.
#[track_caller]
fn check_fresh(name: &str, page: &str) {
    let file = root().join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(page == written, "{name} is not what the code says: run this test with UPDATE=1");
}

#[test]
fn the_page_of_the_command_line_is_fresh() {
    let output = Command::new(env!("CARGO_BIN_EXE_thorp")).arg("markdown").output().unwrap();
    check_fresh("docs/cli.md", &String::from_utf8(output.stdout).unwrap());
}

/// The tables of all programs.
fn tables() -> Vec<Described<'static>> {
    [
        store::tables::TABLES,
        redirector::tables::TABLES,
        &[CLIENT.described(), LINKS.described()],
        homes::tables::TABLES,
        &[WATCH_DATABASE.described(), WATCH_STORE.described()],
        proxy::tables::TABLES,
        verify::tables::TABLES,
        files::tables::TABLES,
        &[files::tables::FILE_SERVER.described(), files::tables::RELAY.described(), files::tables::MOUNT.described()],
        attach::control::tables::TABLES,
        &[VOLUME_HOMES.described()],
    ]
    .concat()
}

#[test]
fn the_page_of_metrics_is_fresh() {
    let mut page = String::from(METRICS);
    for (name, what, columns) in tables() {
        let heads = "| column | unit | metric | meaning |\n|---|---|---|---|\n";
        let _ = write!(page, "\n## {name}\nOne row: {what}.\n\n{heads}");
        for column in columns {
            let metric = ops::metric(name, column).map(|(name, _)| format!("`{name}`")).unwrap_or_default();
            let _ = writeln!(page, "| {} | {} | {metric} | {} |", column.name, column.unit, column.what);
        }
    }
    check_fresh("docs/metrics.md", &page);
}

const METRICS: &str = "\
# Metrics

This page lists the figures of every program, for those who monitor it. It is generated from the code.

These programs listen for operators at `--admin ADDR`: `serve`, `group`, `home`, `watch`, `verify`, `holder`,
`volume attach` and `proxy`.

| request | answer |
|---|---|
| `GET /status` | the tables, as JSON: each is a list of objects under its name |
| `GET /health` | 200, or 503 while something is wrong: `{\"healthy\": false, \"troubles\": [REASON...]}` |
| `GET /metrics` | the tables, for Prometheus |
| `POST /reload` | a proxy reads its files again, as at SIGHUP ([web.md](web.md)); others answer 404 |

The proxy has further requests. The status of a volume or a holder has more than its table ([volumes.md](volumes.md)). A
refused request is answered with `{\"error\": TEXT, \"refused\": NAME}`. With `--token-file FILE` each request needs
`Authorization: Bearer TOKEN`, and the file is required where other machines can connect. Without a token, requests
that a web page could have made are refused: name an address or `localhost` as the host. `thorp status ADDR` asks a
store or a redirector at its own address, and shows the same tables.

A metric has the columns `name` and `number` of its row as labels. The unit is one of these:

| unit | counts |
|---|---|
| `total`, `total bytes` | since the process started |
| `now`, `bytes` | what there is at the moment |
| `count`, `counts` | the number of an update of the store ([terms.md](terms.md)), or a difference of two |
| `s`, `ms`, `us` | a time; its metric is in seconds |
| `flag` | 1, or `yes`, while it is so |
| `state` | the state; its metric is 1, with the state as a label |
| `bound`, `bucket`, `sum us` | a histogram |
| `name`, `number`, `address`, `text` | nothing |
";

#[test]
fn metrics_have_names_of_their_own() {
    let is_unique = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.windows(2).all(|two| two[0] != two[1])
    };
    assert!(is_unique(tables().iter().map(|(name, ..)| *name).collect()));
    for (name, _, columns) in tables() {
        assert!(is_unique(columns.iter().map(|column| column.name).collect()), "{name}");
    }
    let of_table =
        |(table, _, columns): Described<'static>| columns.iter().filter_map(move |it| ops::metric(table, it));
    let metrics: Vec<_> = tables().into_iter().flat_map(of_table).map(|(metric, _)| metric).collect();
    assert!(is_unique(metrics.iter().map(String::as_str).collect()), "{metrics:?}");
}

#[test]
fn the_page_of_refusals_is_fresh() {
    let refusals = [
        Refusal::Stale(Vec::new()),
        Refusal::Busy,
        Refusal::StoreFull,
        Refusal::PageFull(types::PageId::new(0, 7)),
        Refusal::TooLarge,
        Refusal::NoSuchPage(types::PageId::new(0, 7)),
        Refusal::PageDamaged(types::PageId::new(0, 7)),
        Refusal::TooMany,
        Refusal::Closing,
        Refusal::Lapsed(types::Incarnation(2)),
    ];
    let mut page = String::from(
        "# Refusals\n\nGenerated from `crates/core/types/src/refusal.rs`; a test keeps it fresh.\n\n\
         ## Of a commit\nA refused commit has no effect.\n\n| name | what the caller is to do | says |\n|---|---|---|\n",
    );
    for refusal in refusals {
        writeln!(page, "| `{}` | {:?} | {refusal} |", refusal.name(), refusal.caller()).unwrap();
    }
    page += "\n## Of a session\n\n| name | can connecting again help |\n|---|---|\n";
    for goodbye in GoodbyeReason::ALL {
        writeln!(page, "| `{}` | {} |", goodbye.name(), if goodbye.is_final() { "no" } else { "yes" }).unwrap();
    }
    check_fresh("docs/refusals.md", &page);
}

/// The lines of a document's blocks of shell commands.
fn command_lines(document: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(document).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.flat_map(|(block, _)| block.lines()).map(str::to_owned).collect()
}

/// Every line of README that begins with `thorp` runs, in their order, against a store that the first of them starts,
/// and a redirector and a proxy that others do: with their addresses in place of those that README has.
#[test]
fn the_command_lines_in_readme_run() {
    let folder = Folder::new();
    folder.write("MODEL.ifc", SMALL);
    std::fs::create_dir(folder.file("www")).unwrap();
    folder.write("www/index.html", "<p>");
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_thorp")).parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let (mut server, mut redirector, mut proxy, mut ran) = (None, None, None, 0);
    for line in command_lines(&root().join("README.md")) {
        let line = line.split("  #").next().unwrap_or_default().trim_end();
        if line.starts_with("thorp serve --dir") {
            server = Some(serve(&folder));
        } else if line.starts_with("thorp group") {
            redirector = Some(groups::start_redirector(server.as_ref().expect("README starts a store first"), &[]));
        } else if line.starts_with("thorp proxy") {
            proxy = Some(Proxy::start("http://127.0.0.1:8000"));
        } else if let Some(rest) = line.strip_prefix("thorp invalidate ") {
            let admin = proxy.as_ref().expect("README starts a proxy first").admin();
            thorp(["invalidate", "--admin", admin].into_iter().chain(rest.split(' '))).ok();
        } else if line.starts_with("thorp publish") || line.starts_with("thorp site") {
            let store = folder.file("site");
            let words = line.trim_end_matches('&').replace("/tmp/site", &store).replace("www", &folder.file("www"));
            let words: Vec<&str> = words.split_whitespace().skip(1).collect();
            match words[..] {
                ["site", "serve", ..] => drop(start(&[&words[..], &["--listen", "127.0.0.1:0"]].concat())),
                _ => drop(thorp(words).ok()),
            }
        } else if line.starts_with("thorp volume attach") {
            volumes::attach_and_detach(&folder, line);
        } else if line.starts_with("thorp ") {
            let address = server.as_ref().expect("README starts a store first").address().to_string();
            let line = match &redirector {
                Some(it) => {
                    line.replace("127.0.0.1:7411", &address).replace("127.0.0.1:7412", &it.address().to_string())
                }
                None => format!("{line} --server {address}"),
            };
            let done =
                Command::new("sh").args(["-c", &line]).env("PATH", &path).current_dir(folder.path()).output().unwrap();
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
            ran += 1;
        }
    }
    proxy.expect("README starts a proxy").stop();
    assert!(ran >= 5, "README shows some commands, and {ran} were found");
}

/// README's two commands are the ones that the other tests and the entry points stand for.
#[test]
fn the_two_commands_stand_in_readme() {
    let lines = command_lines(&root().join("README.md"));
    let ours: Vec<_> = lines.iter().filter(|line| line.starts_with("cargo")).collect();
    assert!(ours.iter().any(|line| line.starts_with("cargo run --release -- demo")), "{ours:?}");
    assert!(ours.iter().any(|line| line.starts_with("cargo xtask test")), "{ours:?}");
}

/// The main job, with less to do, in a folder for temporary files: `cargo run --release -- demo`.
fn demo(folder: &Folder, more: &[&str]) -> Command {
    let mut demo = command();
    demo.args(["demo", "--visits", "4"]).args(more).env("TMPDIR", folder.path());
    demo
}

fn left(folder: &Folder) -> usize {
    std::fs::read_dir(folder.path()).unwrap().count()
}

/// With so few transactions the times that it compares say nothing. Without a directory of the user's, it leaves
/// nothing.
#[test]
fn the_demo_ends_well_and_leaves_nothing() {
    let folder = Folder::new();
    let told = ran(demo(&folder, &["--json"]).output().unwrap()).ok();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["acknowledged"].as_u64() > Some(100), "{told}");
    assert!(told["pages_from_peers"].as_u64() > Some(0), "{told}");
    for (field, good) in [("acknowledged_and_lost", 0), ("doubled", 0), ("half_done", 0)] {
        assert_eq!(told[field], good, "{told}");
    }
    assert_eq!(told["strictly_serializable"], true, "{told}");
    assert_eq!(left(&folder), 0);
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let folder = Folder::new();
    let process = Process::spawn(demo(&folder, &[]), "the demo").unwrap();
    let line = process.line().unwrap();
    assert!(line.contains("A store in") && left(&folder) > 0, "{line}");
    let ended = process.end_by(Signal::INT).unwrap();
    assert_eq!((ended.status.code(), left(&folder)), (Some(128 + Signal::INT.as_raw()), 0), "{ended:?}");
}

#[test]
fn a_shell_completes_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = thorp(["completions", shell]).ok();
        assert!(script.contains("doctor"), "{shell}");
    }
    let folder = Folder::new();
    let file = folder.write("completions", thorp(["completions", "bash"]).ok());
    let script = "source \"$1\"; COMP_WORDS=(thorp ser) COMP_CWORD=1; _thorp thorp ser thorp; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash").args(["-c", script, "bash", &file]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "serve", "{completed:?}");
}
