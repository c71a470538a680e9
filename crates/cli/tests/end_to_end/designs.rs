//! Designs: an ISO 10303-21 file in, followed along its references, and out again.

/// A window in a wall, as a file would have it.
pub(crate) const SMALL: &str = "\
ISO-10303-21;
HEADER;
FILE_DESCRIPTION((''),'2;1');
FILE_NAME('small.ifc','2026-01-01T00:00:00',(''),(''),'','','');
FILE_SCHEMA(('IFC2X3'));
ENDSEC;
DATA;
#1=IFCCARTESIANPOINT((0.,0.,1.50));
#2=IFCAXIS2PLACEMENT3D(#1,$,$);
#3=IFCLOCALPLACEMENT($,#2);
#7=IFCPROPERTYSINGLEVALUE('Height',$,IFCLENGTHMEASURE(1.2),$);
#123=IFCWINDOW('2O2Fr$t4X7Zf8NOew3FLOH',$,'Fenster \\X2\\00FC\\X0\\','',$,#3,$,'W1',1.2,0.8);
#200=IFCRELDEFINES('x',$,$,$,(#123),#7);
ENDSEC;
END-ISO-10303-21;
";

use crate::program::{Folder, thorp, thorp_reading};

fn loaded(folder: &Folder) -> String {
    let (file, dir) = (folder.write("small.ifc", SMALL), folder.file("store"));
    let told = thorp(["load", &file, "--into", "house", "--dir", &dir]).ok();
    assert_eq!(told, "6 entities in design house\n");
    dir
}

#[test]
fn a_dump_is_the_same_entities() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let dumped = thorp(["dump", "house", "--dir", &dir]).ok();
    let entities =
        |text: &str| text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(entities(&dumped), entities(SMALL));
    let again = folder.write("again.ifc", dumped.clone());
    thorp(["load", &again, "--into", "again", "--dir", &dir]).ok();
    assert_eq!(thorp(["dump", "again", "--dir", &dir]).ok(), dumped);
    assert_eq!(thorp(["ls", "--dir", &dir]).ok(), "again/#\nhouse/#\n");
}

#[test]
fn references_are_followed() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let lines = SMALL.lines().collect::<Vec<_>>();
    let entity = |number: &str| *lines.iter().find(|line| line.starts_with(&format!("{number}="))).unwrap();
    assert_eq!(thorp(["get", "house/#123", "--dir", &dir]).ok(), format!("{}\n", entity("#123")));
    let followed = thorp(["get", "house/#123", "--depth", "2", "--dir", &dir]).ok();
    assert_eq!(followed, format!("{}\n  {}\n    {}\n", entity("#123"), entity("#3"), entity("#2")));
    let missing = thorp(["get", "house/#5", "--dir", &dir]).error();
    assert!(missing.contains("no entity #5"), "{missing}");
    for command in ["ls", "get"] {
        let hint = thorp([command, "house", "--dir", &dir]).error();
        assert!(
            hint.contains("'house' is a design") && hint.contains(&format!("`thorp dump house --dir {dir}`")),
            "{hint}"
        );
    }
}

#[test]
fn the_same_name_for_another_file_is_refused() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let other = folder.write("other.ifc", SMALL.replace("1.50", "1.51"));
    let refused = thorp(["load", &other, "--into", "house", "--dir", &dir]).error();
    assert!(refused.contains("design from another file"), "{refused}");
    let hint = format!("`thorp load {other} --into house --replace --dir {dir}`");
    assert!(refused.contains(&hint), "{refused}");
}

#[test]
fn a_design_is_replaced_by_its_next_revision() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let next = SMALL.replace("1.50", "1.51").replace("#200=IFCRELDEFINES('x',$,$,$,(#123),#7);\n", "");
    let file = folder.write("next.ifc", &next);
    let words = ["load", &file, "--into", "house", "--replace", "--dir", &dir];
    assert_eq!(thorp(words).ok(), "5 entities in design house, in the place of the one before\n");
    let point = thorp(["get", "house/#1", "--dir", &dir]).ok();
    assert_eq!(point, "#1=IFCCARTESIANPOINT((0.,0.,1.51));\n");
    assert!(thorp(["get", "house/#200", "--dir", &dir]).error().contains("no entity #200"));
    assert_eq!(thorp(words).ok(), "5 entities in design house, resumed after 5\n", "it is that one already");
}

/// A design is known by what it says, so its load goes on from a pipe as well.
#[test]
fn a_design_comes_through_a_pipe() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let load = |input: &str| thorp_reading(["load", "-", "--into", "house", "--dir", &dir], input).ok();
    assert_eq!(load(&format!("\u{feff}{SMALL}")), "6 entities in design house\n");
    assert_eq!(load(SMALL), "6 entities in design house, resumed after 6\n");
}
