#!/usr/bin/python3
"""docs/structure.md against the build files: every room is in its table, with folder and KNOWS line."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CALL = re.compile(r"^(room|proto_room|program)\((.*?)\)", re.MULTILINE | re.DOTALL)
KEYWORDS = {"DIR", "SOURCES", "KNOWS", "LIBRARIES"}
ROW = re.compile(r"^\| `([a-z_-]+)` \| `([^`]*)` \| ([^|]*) \| [^|]*[^| ] *\|$", re.MULTILINE)


def calls():
    """(kind, name, folder, rooms known) of every room and program that the build files declare."""
    for file in sorted(SOURCE.glob("*/**/CMakeLists.txt")):
        folder = file.parent.relative_to(SOURCE)
        if folder.parts[0] in ("tests", "build"):
            continue
        for kind, body in CALL.findall(re.sub(r"#.*", "", file.read_text())):
            words, known, keyword = body.split(), [], None
            for word in words[1:]:
                if word in KEYWORDS:
                    keyword = word
                elif keyword == "KNOWS":
                    known.append(word)
            if "$" not in words[0]:  # the definition of proto_room() itself is no room
                yield kind, words[0], f"{folder}/", known


class Structure(unittest.TestCase):
    maxDiff = None

    def test_table_is_what_the_build_holds(self):
        text = (SOURCE / "docs/structure.md").read_text()
        table = {name: (folder, sorted(re.findall(r"`([a-z_-]+)`", known)))
                 for name, folder, known in ROW.findall(text)}
        built = {name: (folder, sorted(known)) for _, name, folder, known in calls()}
        self.assertGreater(len(built), 20, "the build files were not understood")
        self.assertEqual(table, built)

    def test_files_that_the_page_names_are_there(self):
        text = (SOURCE / "docs/structure.md").read_text().split("\n## A walk")[0]  # which makes files
        names = {"/" + str(f.relative_to(SOURCE)) for top in ("agent", "collector", "netcfg",
                           "probes", "proto", "tests", "docs") for f in SOURCE.glob(f"{top}/**/*")}
        for name in sorted(set(re.findall(r"[\w/-]+\.(?:c|h|def|py|proto)\b", text))):
            with self.subTest(name):
                self.assertTrue(any(n.endswith("/" + name) for n in names),
                                f"docs/structure.md names {name}, which is not there")

    def test_picture_is_what_the_build_holds(self):
        import picture  # which needs calls() of this file
        held, fresh = picture.in_page((SOURCE / "docs/structure.md").read_text())
        self.assertEqual(
    held,
    picture.picture(),
     "out of date: tests/structure/picture.py --write draws it again")
        self.assertIn(held, fresh)

    def test_base_and_wire_know_nobody(self):
        for _, name, _, known in calls():
            if name in ("base", "proto_local", "proto_otlp"):
                self.assertEqual(known, [], name)

    def test_nobody_knows_the_agent_but_its_program(self):
        self.assertEqual([name for _, name, _, known in calls() if "hostd" in known], ["tpu-hostd"])


if __name__ == "__main__":
    unittest.main()
