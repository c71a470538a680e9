//! Homes at a store that belong to no volume, as commands leave them that were killed.

use crate::program::{spawn, thorp};
use crate::stored_volumes::Site;
use fixtures::{PATIENCE, Process, try_until};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// An import of a pipe that says no more when some of it has come home.
pub(crate) fn import(site: &Site, name: &str) -> Process {
    let mut import = spawn(&["volume", "import", "-", name, "--store", &site.address()]);
    import.tell(&vec![7; 20 << 20]).unwrap();
    import
}

pub(crate) fn homes(site: &Site) -> Vec<Value> {
    let said = thorp(["volume", "list", "--homes", "--store", &site.address(), "--json"]).ok();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for a home of no volume that has something.
pub(crate) fn wait_for_home(site: &Site) -> String {
    let is_so = |home: &Value| home["volume"].is_null() && home["disk_bytes"].as_u64() > Some(8 << 20);
    let home = || homes(site).into_iter().find(is_so);
    let home = try_until("an import has a home", PATIENCE, home).unwrap();
    home["home"].as_str().unwrap().to_owned()
}

#[test]
fn a_home_that_a_killed_import_leaves_is_found_and_removed() {
    let site = Site::new(0);
    site.create_with("1", "8M");
    let store = site.address();
    let remove =
        |home: &str, more: &[&str]| thorp([&["volume", "remove", "--home", home, "--store", &store], more].concat());
    let [of_volume] = &homes(&site)[..] else { panic!("there is one: {:?}", homes(&site)) };
    assert_eq!((&of_volume["volume"], &of_volume["size"]), (&"v".into(), &(8 << 20).into()), "{of_volume}");
    let refused = remove(of_volume["home"].as_str().unwrap(), &["--force"]).error();
    assert!(refused.contains("that of the volume 'v'"), "{refused}");

    let child = import(&site, "w");
    let home = wait_for_home(&site);
    let refused = remove(&home, &["--force"]).error();
    assert!(refused.contains("is open"), "{refused}");
    drop(child);
    let closed = || Some(remove(&home, &[]).error()).filter(|refused| !refused.contains("is open"));
    let refused = try_until("home notices that the import is gone", PATIENCE, closed).unwrap();
    assert!(refused.contains("s ago, so it may be that of a volume which is being made"), "{refused}");
    let said = thorp(["volume", "list", "--homes", "--store", &store]).ok();
    assert!(said.lines().any(|line| line.starts_with(&home) && line.ends_with("of no volume")), "{said}");

    // A minute later.
    for end in ["raw", "mark", "sums"] {
        let path = Path::new(&site.folder.file("homes")).join(format!("{home}.{end}"));
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(61)).unwrap();
    }
    assert!(homes(&site).iter().any(|it| it["home"] == home.as_str() && it["unwritten_s"].as_u64() >= Some(61)));
    assert!(remove(&home, &[]).ok().contains("removed"));
    assert!(remove(&home, &[]).error().contains("there is no home"));
    assert_eq!(homes(&site).len(), 1);

    // The store was killed while it made this one.
    let torn = "00000000000000ab";
    std::fs::write(Path::new(&site.folder.file("homes")).join(format!("{torn}.raw")), [1; 4096]).unwrap();
    let found = homes(&site);
    assert_eq!((&found[0]["home"], &found[0]["is_whole"]), (&torn.into(), &false.into()), "{found:?}");
    assert!(remove(torn, &[]).error().contains("--force"));
    remove(torn, &["--force"]).ok();
    assert_eq!(homes(&site).len(), 1);
    assert!(remove("17", &[]).stderr.contains("16 hexadecimal digits"));
}
