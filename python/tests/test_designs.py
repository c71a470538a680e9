"""`thorp load`, `dump` and `get`, judged by another reader of ISO 10303-21."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from programs import run, thorp

ifcopenshell = pytest.importorskip("ifcopenshell")

HEAD = (
    "ISO-10303-21;\nHEADER;\nFILE_DESCRIPTION((''),'2;1');\nFILE_NAME('n','2020-01-01T00:00:00',(''),(''),'','','');\n"
)
BESIDE = Path(__file__).parents[2] / "../shared/data/schependomlaan-frames.ifczip"

# Spellings, and the characters that they stand for.
TEXTS = {
    "plain": "plain",
    "it''s \\\\ a door": "it's \\ a door",
    "nach \\S\\' 3 Abs. 2": "nach \N{SECTION SIGN} 3 Abs. 2",
    "\\PE\\\\S\\=\\S\\5\\S\\b": "\u041d\u0415\u0442",
    "\\PB\\\\S\\3\\PA\\\\S\\3": "ł³",
    "\\X\\FC \\X2\\00E403A9\\X0\\ \\X4\\0001F600\\X0\\": "ü äΩ 😀",
}


def model(texts: list[str]) -> str:
    """A file with a text in each of its entities."""
    lines = [f"#{number}=IFCORGANIZATION($,'{text}',$,$,$);\n" for number, text in enumerate(texts, 1)]
    return f"{HEAD}FILE_SCHEMA(('IFC4'));\nENDSEC;\nDATA;\n{''.join(lines)}ENDSEC;\nEND-ISO-10303-21;\n"


def dumped(folder: Path, file: Path) -> Path:
    """The file behind `load` and `dump`."""
    run("load", file, "--into", "m", "--dir", folder / "store")
    out = folder / "dumped.ifc"
    with out.open("wb") as into:
        subprocess.run([thorp(), "dump", "m", "--dir", str(folder / "store")], check=True, stdout=into)
    return out


def got(folder: Path, number: int) -> Any:
    """The values of an entity, as `thorp get` has them for programs."""
    command = [thorp(), "get", f"m/#{number}", "--json", "--dir", str(folder / "store")]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["parts"][0]["values"]


def entities(file: Path) -> dict[int, str]:
    """What the other reader finds in a file, by number."""
    return {entity.id(): str(entity) for entity in ifcopenshell.open(str(file))}


def test_texts_are_read_as_by_another_reader(tmp_path: Path) -> None:
    file = tmp_path / "texts.ifc"
    file.write_text(model(list(TEXTS)))
    again = ifcopenshell.open(str(dumped(tmp_path, file)))
    for number, text in enumerate(TEXTS.values(), 1):
        assert got(tmp_path, number)[1] == text
        assert again.by_id(number).Name == text


def test_every_character_of_every_code_page(tmp_path: Path) -> None:
    expected, texts = [], []
    for part in range(1, 10):
        characters = {code: bytes([code]).decode(f"iso8859_{part}", "replace") for code in range(0xA0, 0xFF)}
        defined = {
            code: character for code, character in characters.items() if character != "\N{REPLACEMENT CHARACTER}"
        }
        expected.append("".join(defined.values()))
        texts.append(f"\\P{chr(ord('@') + part)}\\" + "".join(f"\\S\\{chr(code - 128)}" for code in defined))
    file = tmp_path / "pages.ifc"
    file.write_text(model(texts))
    assert entities(dumped(tmp_path, file)) == entities(file)
    for number, text in enumerate(expected, 1):
        assert got(tmp_path, number)[1] == text


def test_a_real_model_comes_back(tmp_path: Path) -> None:
    file = Path(os.environ.get("THORP_TEST_MODEL", BESIDE))
    if not file.exists():
        pytest.skip("no model here: set THORP_TEST_MODEL to an IFC file to run this test")
    unpacked = tmp_path / "model.ifc"
    with zipfile.ZipFile(file) as archive:
        unpacked.write_bytes(archive.read(archive.namelist()[0]))
    assert entities(dumped(tmp_path, unpacked)) == entities(unpacked)
