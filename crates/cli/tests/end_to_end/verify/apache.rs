//! A real Apache with PHP, which keeps pages as files by the example.

use super::load::{self, ITEMS, Shown};
use super::{Verify, are_installed, exchange, free_address, get, request_text, start_server};
use crate::program::Folder;
use crate::web::PATIENCE;
use fixtures::{Process, Signal};
use std::fs::{Permissions, read_dir, set_permissions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// PHP as a module of Apache's; its file is named for the version.
fn php() -> Option<String> {
    let names = read_dir(MODULES).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| name.starts_with("libphp"))
}

/// An Apache by the example's configuration, with places of this test's.
fn apache(folder: &Folder, helper: SocketAddr) -> (Process, SocketAddr) {
    let address = free_address();
    let examples = Path::new("../../examples/php");
    let mut site = std::fs::read_to_string(examples.join("apache.conf")).unwrap();
    for (in_example, here) in [
        ("/srv/shop", folder.file("site")),
        ("unix:///run/thorp/verify", format!("tcp://{helper}")),
        ("/var/lib/shop", folder.file("items")),
        ("/var/cache/shop", folder.file("pages")),
    ] {
        assert!(site.contains(in_example), "the example names {in_example}");
        site = site.replace(in_example, &here);
    }
    let site = folder.write("site.conf", site);
    for name in ["site", "items", "pages"] {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        // Apache has a user of its own if it can.
        set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    }
    for file in ["thorp.php", "item.php"] {
        std::fs::copy(examples.join(file), folder.path().join("site").join(file)).unwrap();
    }
    let php = php().unwrap();
    let modules = [
        ("mpm_prefork", "mod_mpm_prefork.so"),
        ("authz_core", "mod_authz_core.so"),
        ("dir", "mod_dir.so"),
        ("env", "mod_env.so"),
        ("headers", "mod_headers.so"),
        ("mime", "mod_mime.so"),
        ("php", &php),
    ]
    .map(|(name, file)| format!("LoadModule {name}_module {MODULES}/{file}\n"))
    .concat();
    let (log, pid, run) = (folder.file("apache.log"), folder.file("apache.pid"), folder.path().display());
    let whole = format!(
        "{modules}ServerName shop.example\nListen {address}\nPidFile {pid}\nErrorLog {log}\nDefaultRuntimeDir {run}\n\
         TypesConfig /dev/null\nUser www-data\nGroup www-data\nStartServers 4\nMaxRequestWorkers 8\nInclude {site}\n"
    );
    let whole = folder.write("apache.conf", whole);
    let mut command = Command::new(APACHE);
    command.args(["-D", "FOREGROUND", "-f", &whole]);
    (start_server(command, address), address)
}

#[test]
fn php_uses_nothing_that_is_stale() {
    let php = php().map(|name| format!("{MODULES}/{name}")).unwrap_or_default();
    if !are_installed("Apache with PHP", &[APACHE, &php]) {
        return;
    }
    let folder = Folder::new();
    let verify = Verify::start(&folder.path().join("verify"), &["--listen", "127.0.0.1:0"]);
    let (_apache, address) = apache(&folder, verify.listen.unwrap());
    let read = |item: usize| {
        let answer = get(address, &format!("/item.php?id={item}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        let name = answer.body.split(": ").nth(1).and_then(|rest| rest.split('<').next());
        let value = name.map_or(0, |name| name.parse().unwrap());
        Shown { value, is_hit: answer.field("X-Cache-Status") == "HIT" }
    };
    let begun = Instant::now();
    while !read(0).is_hit {
        assert!(begun.elapsed() < PATIENCE, "nothing is kept");
    }
    load::check(read, |item, value| {
        let (line, form) =
            (format!("POST /item.php?id={item}"), [("Content-Type", "application/x-www-form-urlencoded")]);
        let request = request_text(&line, "shop.example", &form, &format!("name={value}"));
        let answer = exchange(TcpStream::connect(address).unwrap(), &request);
        assert_eq!(answer.status, 204, "{answer:?}");
    });
    // A query that clients make longer makes no pages.
    for number in 0..20 {
        get(address, &format!("/item.php?id=0&other={number}"));
    }
    let folders: Vec<_> = read_dir(folder.path().join("pages")).unwrap().map(|it| it.unwrap().path()).collect();
    let count = |folder: &PathBuf| read_dir(folder).unwrap().count();
    let pages: usize = folders.iter().map(count).sum();
    assert!(pages < 20, "the files of other versions are removed: there are {pages}");
    // A folder has a bounded number of them.
    for (at, page) in folders.iter().flat_map(|folder| (0..100).map(move |page| (folder, page))) {
        std::fs::write(at.join(format!("another {page}")), "").unwrap();
    }
    for item in 0..ITEMS {
        verify.changed(&[&format!("item:{item}")]);
        let begun = Instant::now();
        while !read(item).is_hit {
            assert!(begun.elapsed() < PATIENCE, "nothing is kept");
        }
    }
    for folder in &folders {
        assert!(count(folder) <= 64, "{} in {}", count(folder), folder.display());
    }
    // An item that cannot be written is as it was.
    std::fs::create_dir(folder.path().join("items/7")).unwrap();
    let request = request_text("POST /item.php?id=7", "shop.example", &[], "");
    assert_eq!(exchange(TcpStream::connect(address).unwrap(), &request).status, 500);
    let items = read_dir(folder.path().join("items")).unwrap().map(|item| item.unwrap().file_name());
    assert!(items.into_iter().all(|name| !name.to_string_lossy().starts_with("new.")));

    // A change without word of it: pages that are kept are used, so the check can fail.
    let set = |value: u64| std::fs::write(folder.path().join("items/0"), value.to_string()).unwrap();
    let begun = Instant::now();
    let mut value = 1_000_000;
    loop {
        let kept = read(0);
        value += 1;
        set(value);
        if kept.is_hit && read(0).value == kept.value {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is kept");
    }
    verify.changed(&["item:0"]);
    assert_eq!(read(0).value, value);
    // One that hangs is waited for, for as long as a look may take.
    verify.process.signal(Signal::STOP).unwrap();
    let begun = Instant::now();
    assert!(!read(0).is_hit && begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    verify.process.signal(Signal::CONT).unwrap();
    // Without the helper pages are made, and a change says that it is not known to be told.
    verify.stop();
    set(2_000_000);
    assert_eq!((read(0).value, read(0).is_hit), (2_000_000, false));
    let request = request_text("POST /item.php?id=0", "shop.example", &[], "");
    assert_eq!(exchange(TcpStream::connect(address).unwrap(), &request).status, 500);
}
