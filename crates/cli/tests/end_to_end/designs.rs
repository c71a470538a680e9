//! Designs: an ISO 10303-21 file in, followed along its references, and out again.
use crate::program::{Folder, command, thorp, thorp_reading};
use fixtures::installed::has;

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
    assert_eq!(thorp(["ls", "--dir", &dir]).ok(), "again/#  6 entities, IFC2X3\nhouse/#  6 entities, IFC2X3\n");
}

#[test]
fn references_are_followed() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let lines = SMALL.lines().collect::<Vec<_>>();
    let entity = |number: &str| {
        let line = *lines.iter().find(|line| line.starts_with(&format!("{number}="))).unwrap();
        line.replace("\\X2\\00FC\\X0\\", "ü")
    };
    assert_eq!(thorp(["get", "house/#123", "--dir", &dir]).ok(), format!("{}\n", entity("#123")));
    let followed = thorp(["get", "house/#123", "--depth", "2", "--dir", &dir]).ok();
    assert_eq!(followed, format!("{}\n  {}\n    {}\n", entity("#123"), entity("#3"), entity("#2")));
    let missing = thorp(["get", "house/#5", "--dir", &dir]).error();
    assert!(missing.contains("no entity #5"), "{missing}");
    let hint = thorp(["get", "house", "--dir", &dir]).error();
    let dump = format!("`thorp dump house --dir {dir}`");
    assert!(hint.contains("'house' is a design") && hint.contains(&dump), "{hint}");
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

/// A design is known by what it says, so its load continues from a pipe as well.
#[test]
fn a_design_comes_through_a_pipe() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let load = |input: &str| thorp_reading(["load", "-", "--into", "house", "--dir", &dir], input).ok();
    assert_eq!(load(&format!("\u{feff}{SMALL}")), "6 entities in design house\n");
    assert_eq!(load(SMALL), "6 entities in design house, resumed after 6\n");
}

/// A file of one section of data.
fn of(data: &str) -> String {
    format!("ISO-10303-21;\nHEADER;\nFILE_SCHEMA(('IFC4'));\nENDSEC;\nDATA;\n{data}ENDSEC;\nEND-ISO-10303-21;\n")
}

#[test]
fn texts_are_decoded_and_come_back_as_they_were_spelt() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let spellings: [&[u8]; 6] = [
        b"nach \\S\\' 3 Abs. 2",
        b"\\PE\\\\S\\=\\S\\5\\S\\b",
        b"\\X\\FC\\X2\\00FC\\X0\\",
        b"K\xfcche",
        b"C:\\temp\\N\\",
        b"\\S\\'",
    ];
    let texts = ["nach § 3 Abs. 2", "НЕт", "üü", "Küche", "C:\\\\temp", "§"];
    let lines = spellings.iter().zip(1..).map(|(text, i)| [format!("#{i}=A('").as_bytes(), text, b"',$);\n"].concat());
    let [head, tail] = of("|").split('|').map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>().try_into().unwrap();
    let file = [head, lines.collect::<Vec<_>>().concat(), tail].concat();
    let path = folder.write("texts.ifc", &file);
    thorp(["load", &path, "--into", "m", "--dir", &dir]).ok();
    for (text, i) in texts.iter().zip(1..) {
        let shown = thorp(["get", &format!("m/#{i}"), "--dir", &dir]).ok();
        assert_eq!(shown, format!("#{i}=A('{text}',$);\n"));
    }
    for options in [&["dump", "m"][..], &["dump", "m", "--in-parts"]] {
        let dumped = command().args(options).args(["--dir", &dir]).output().unwrap();
        assert!(dumped.stdout == file, "{}", String::from_utf8_lossy(&dumped.stdout));
    }
    let json = thorp(["get", "m/#2", "--json", "--dir", &dir]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["parts"][0]["values"], serde_json::json!(["НЕт", null]));
}

#[test]
fn edition_3_is_loaded_and_dumped() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let file = "ISO-10303-21;\nHEADER;\nFILE_DESCRIPTION((''),'4;1');\nENDSEC;\nANCHOR;\n<origin>=#1;\nENDSEC;\n\
        REFERENCE;\n#10=<other.ifc#origin>;\n@11=<other.ifc#mass>;\nENDSEC;\nDATA('a',('IFC4'));\n\
        #1=A(#10,@11,#PI,'ü');\nENDSEC;\nDATA('b',('IFC4'));\n#2=B(#1);\nENDSEC;\nEND-ISO-10303-21;\n\
        SIGNATURE\nMIIB\nENDSEC;\n";
    let path = folder.write("edition-3.ifc", file);
    assert_eq!(thorp(["load", &path, "--into", "m", "--dir", &dir]).ok(), "2 entities in design m\n");
    assert_eq!(thorp(["dump", "m", "--dir", &dir]).ok(), file);
    assert_eq!(thorp(["get", "m/#1", "--dir", &dir]).ok(), "#1=A(#10,@11,#PI,'ü');\n");
}

#[test]
fn a_design_is_known_by_its_contents() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let text = format!("\u{feff}\n/* written by hand */\n{SMALL}");
    for name in ["plain", "small.stpz", "small.spf", "small.json"] {
        let file = folder.write(name, &text);
        let told = thorp(["load", &file, "--into", name, "--dir", &dir]).ok();
        assert_eq!(told, format!("6 entities in design {name}\n"));
    }
    let told = thorp_reading(["load", "-", "--into", "pipe", "--dir", &dir], &text).ok();
    assert_eq!(told, "6 entities in design pipe\n");
    let lines = folder.write("lines", "{\"id\": 1}\n");
    assert_eq!(thorp(["load", &lines, "--into", "j", "--key", "id", "--dir", &dir]).ok(), "1 documents into j\n");
    let other = folder.write("other.ifc", "{\"id\": 1}\n");
    assert!(thorp(["load", &other, "--into", "o", "--dir", &dir]).error().contains("expected an ISO 10303-21 file"));
}

#[test]
fn missing_entities_are_named() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let file = folder.write("d.ifc", of("#1=A(#99);\n#2=B(#98);\n"));
    let words = ["load", &file, "--into", "m", "--dir", &dir];
    let refused = thorp(words).error();
    let hint = format!("`thorp load {file} --into m --dangling keep --dir {dir}`");
    assert!(refused.contains("#1 refers to #99, which the file does not have, nor 1 other"), "{refused}");
    assert!(refused.contains(&hint), "{refused}");
    let told = thorp(words.iter().chain(&["--dangling", "null"])).ok();
    assert_eq!(told, "2 entities in design m; 2 that they refer to are missing: #98 #99\n");
    assert_eq!(thorp(["get", "m/#1", "--dir", &dir]).ok(), "#1=A($);\n");
    let json = thorp(["load", &file, "--into", "k", "--dangling", "keep", "--json", "--dir", &dir]).ok();
    assert!(json.contains("\"missing\":[98,99]"), "{json}");
    assert_eq!(thorp(["get", "k/#1", "--dir", &dir]).ok(), "#1=A(#99);\n");
}

#[test]
fn a_listing_shows_designs_and_what_applications_have_stored() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let file = folder.write("small.ifc", SMALL);
    for name in ["m/house", "m/inner/house", "shed"] {
        thorp(["load", &file, "--into", name, "--dir", &dir]).ok();
    }
    thorp(["put", "m/note", "7", "--dir", &dir]).ok();
    let db = thorp::Db::open(&dir).unwrap();
    db.transact(|tx| {
        let parts: thorp::Map<String, u64> = tx.map("parts")?;
        parts.insert(tx, "wheel", &4)?;
        let boss = tx.create(thorp::Anywhere, &"Ada".to_owned())?;
        tx.set_root("boss", boss)
    })
    .unwrap();
    db.space("attic").unwrap().transact(|tx| tx.map::<u64, u64>("m").map(drop)).unwrap();
    db.close().unwrap();
    let ls = |words: &[&str]| thorp(["ls"].iter().chain(words).chain(&["--dir", &dir])).ok();
    assert_eq!(ls(&["m"]), "house/#  6 entities, IFC2X3\ninner/\nnote\n");
    assert_eq!(ls(&["shed"]), "#  6 entities, IFC2X3\n");
    assert_eq!(
        ls(&[]),
        "m/\nshed/#  6 entities, IFC2X3\nboss  root: a text\nparts  1 entries in a map with keys of type String\n\
         attic  space 1 with 1 maps\n"
    );
    assert_eq!(ls(&["-0"]), "m/\0shed/#\0");
    let json = ls(&["m", "--json"]);
    let house: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    let expected = serde_json::json!({
        "name": "house/#", "kind": "design", "entities": 6, "schemas": ["IFC2X3"], "state": "whole",
    });
    assert_eq!(house, expected);
    assert!(ls(&["--json"]).contains(r#""name":"parts","kind":"map""#));
    thorp(["rm", "-r", "m", "--dir", &dir]).ok();
    assert_eq!(ls(&["-0"]), "shed/#\0");
}

#[test]
fn entities_are_found_by_type_and_attributes() {
    let folder = Folder::new();
    let dir = loaded(&folder);
    let find = |words: &[&str]| thorp(["find", "house"].iter().chain(words).chain(&["--dir", &dir]));
    let window = find(&["--kind", "IfcWindow", "--where", "Name~FENSTER"]).ok();
    assert!(window.starts_with("#123=IFCWINDOW(") && window.contains("'Fenster ü'"), "{window}");
    assert_eq!(find(&["--where", "NominalValue>1", "--where", "Name=Height"]).ok().lines().count(), 1);
    assert_eq!(find(&["--kind", "IfcDoor"]).ok(), "");
    assert_eq!(find(&["--limit", "2"]).ok().lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&find(&["--kind", "ifcwindow", "--json"]).ok()).unwrap();
    assert_eq!((&json["number"], &json["parts"][0]["values"][2]), (&123.into(), &"Fenster ü".into()));
    assert!(find(&["--where", "Height=3"]).code == Some(2));
    assert!(thorp(["find", "nothing", "--dir", &dir]).error().contains("nothing under 'nothing'"));
}

/// Runs a command on a terminal, and returns everything that it shows there.
fn on_a_terminal(words: &str) -> Option<String> {
    if !has("script") {
        return None;
    }
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_thorp"));
    let shown = std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
    assert!(shown.status.success());
    Some(String::from_utf8_lossy(&shown.stdout).into_owned())
}

#[test]
fn long_work_shows_progress_on_a_terminal() {
    let folder = Folder::new();
    let (file, dir, out) = (folder.write("small.ifc", SMALL), folder.file("store"), folder.file("out"));
    for (words, progress) in [
        (format!("load {file} --into house"), "read (bytes)"),
        ("dump house".to_owned(), "dump (entities)"),
        (format!("dump house --in-parts > {out}"), "dump (entities)"),
        (format!("find house --kind IfcDoor > {out}"), "find (entities)"),
        ("rm -r house".to_owned(), "remove (entities)"),
    ] {
        let Some(shown) = on_a_terminal(&format!("{words} --dir {dir}")) else { return };
        assert!(shown.contains(progress), "{words}: {shown}");
    }
}
