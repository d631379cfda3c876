#!/usr/bin/python3
"""Modules of the product: no name in two headers, and no circle between files.

A file needs another when it uses a name that the other's object defines.

BUILD_DIR: the build's folder (generator Ninja).
"""
import collections
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["BUILD_DIR"])
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRUCT = re.compile(r"^(?:struct|enum|union) (\w+) \{", re.MULTILINE)
FUNCTION = re.compile(r"^(?!static|typedef|#|return|else)\w[\w \*]*?\b(\w+)"
                      r"\([^;{}=]*\)\s*(?:_\w+_\([^)]*\))?;", re.MULTILINE)
# BPF programs name in these headers what they read of the kernel's structures: the names are the kernel's.
KERNELS = {"probes/bpf/net_kernel.h", "probes/bpf/task_kernel.h"}
# Circles that are right as they are, each with its reason.
RIGHT = []


def headers():
    listed = subprocess.run(["git", "ls-files", "*.h"], cwd=SOURCE, capture_output=True, text=True,
                            check=True)
    for name in listed.stdout.split():
        if not name.startswith("tests/") and name not in KERNELS:
            yield name, COMMENT.sub("", (SOURCE / name).read_text())


def twice(pattern, texts):
    """Names that stand in several files, with the files."""
    places = collections.defaultdict(set)
    for name, text in texts:
        for found in pattern.findall(text):
            places[found].add(name)
    return {name: sorted(files) for name, files in places.items() if len(files) > 1}


def circles(graph):
    """Groups of files of which each needs each other (Tarjan's strongly connected components)."""
    index, low, stack, out = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1:
                out.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(out)


def objects(ninja):
    """{object: source} of the product's own files, one object for each: old objects may lie beside them."""
    found = {}
    for target, source in re.findall(r"^build (\S+\.o): C_COMPILER__\S+ (\S+)", ninja, re.MULTILINE):
        source = pathlib.Path(source)
        if SOURCE not in source.parents or BUILD in source.parents or not source.exists():
            continue
        name = str(source.relative_to(SOURCE))
        if not name.startswith("tests/") and name not in found.values() and (BUILD / target).exists():
            found[target] = name
    return found


def needs(symbols, sources):
    """{file: {file: names}} out of the lines of nm: who uses what another defines."""
    defined, used = {}, collections.defaultdict(set)
    for line in symbols.splitlines():
        target, rest = line.split(": ", 1)
        name, kind = rest.split()[:2]
        if kind in "TDBRC":
            defined.setdefault(name, sources[target])
        elif kind == "U":
            used[sources[target]].add(name)
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, names in used.items():
        for name in names & defined.keys():
            if defined[name] != source:
                graph[source][defined[name]].add(name)
    return graph


def within(graph, group):
    """Who needs what of whom in a circle, for whoever has to mend it."""
    return [f"{a} needs of {b}: {' '.join(sorted(names))}" for a in group
            for b, names in sorted(graph[a].items()) if b in group]


class Modules(unittest.TestCase):
    maxDiff = None

    def test_no_name_stands_in_two_headers(self):
        texts = list(headers())
        self.assertGreater(len(texts), 200)
        self.assertEqual(twice(STRUCT, texts), {})
        self.assertEqual(twice(FUNCTION, texts), {})

    def test_no_circle_between_files(self):
        sources = objects((BUILD / "build.ninja").read_text())
        self.assertGreater(len(sources), 200, "build first")
        symbols = subprocess.run(["nm", "-A", "-g", "--format=posix", *sources], cwd=BUILD,
                                 capture_output=True, text=True, check=True).stdout
        graph = needs(symbols, sources)
        self.assertGreater(sum(map(len, graph.values())), 500)
        found = circles(graph)
        wrong = [within(graph, group) for group in found if group not in RIGHT]
        self.assertEqual(wrong, [], "\n" + "\n\n".join("\n".join(w) for w in wrong))
        self.assertEqual([group for group in RIGHT if group not in found], [], "no circle any more")

    def test_it_would_notice(self):
        texts = [("a.h", "struct x {\n};\nint f(int a);\n"), ("b.h", "struct x {\n};\n"),
                 ("c.h", "int f(int a);\n")]
        self.assertEqual(twice(STRUCT, texts), {"x": ["a.h", "b.h"]})
        self.assertEqual(twice(FUNCTION, texts), {"f": ["a.h", "c.h"]})
        symbols = ("a.o: f T 0 1\na.o: g U\na.o: malloc U\nb.o: g T 0 1\nb.o: h U\n"
                   "c.o: h T 0 1\nc.o: f U\nc.o: table U\nd.o: table R 0 1\n")
        graph = needs(symbols, {f"{x}.o": f"{x}.c" for x in "abcd"})
        self.assertEqual(circles(graph), [["a.c", "b.c", "c.c"]])
        self.assertEqual(within(graph, ["a.c", "b.c", "c.c"]),
                         ["a.c needs of b.c: g", "b.c needs of c.c: h", "c.c needs of a.c: f"])
        del graph["c.c"]["a.c"]
        self.assertEqual(circles(graph), [])


if __name__ == "__main__":
    unittest.main()
