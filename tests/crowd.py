"""Tests many at once, and once more alone what failed there: a crowded machine loses packets and minutes,
and no fault is hidden by that.

Usage: crowd.py --kept FOLDER ctest PRESET [ARGUMENT]…        a CMake test preset; only its tests labelled "program" are run again
       crowd.py --kept FOLDER files AT_ONCE FILE…             files of unittest, each a process of its own, in this order
       crowd.py --kept FOLDER command NAME WORD…              one command

A test that failed is run once more after the others, by itself. If it passes then, it counts as passed, is
named in a line "passed alone,
failed in the crowd: …", and its first output stays in FOLDER. It stays failed without another run when that
output shows a sanitizer's
report or a crash, when the sanitizers wrote a report at all during the step (SANITIZER_REPORTS is the folder
where they do; such a
report fails the step even if every test passed), or when more than MOST tests and one in SHARE failed. Exit
code 0: all
passed, now or then.
Programs alone take the machine's lock for themselves (LOCK in the environment: a file; several crowds share
it).
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import failures

MOST, SHARE = 3, 20  # of one step failed more, and more than one in so many: then it is not the crowd
SHOWN = 40  # lines of a first output
PYTHON = "/usr/bin/python3"
SIGNALS = "(?:4|6|7|8|11|ILL|ABRT|BUS|FPE|SEGV)"
SANITIZER = re.compile(r"\w+Sanitizer\b|runtime error:|DEADLYSIGNAL|libFuzzer")
CRASH = re.compile(rf"SIG(?:ILL|ABRT|BUS|FPE|SEGV)|Segmentation fault|[Cc]ore dumped|\bAborted\b|Assertion "
                   rf"[`'].* failed|stack smashing"
                   rf"|Subprocess aborted|\*\*\*Exception|(?:malloc|free|realloc)\(\): |double "
                   rf"free|corrupted "
                   rf"|(?<![\w.,-])-{SIGNALS} != |!= -{SIGNALS}(?![\w.,])|exit code -{SIGNALS}\b")


def reports():
    """What the sanitizers wrote: [the file]."""
    folder = os.environ.get("SANITIZER_REPORTS")
    return sorted(f for f in Path(folder).glob("*") if f.stat().st_size) if folder else []


def fault(output):
    """What in a first output forbids another run, or None."""
    for what, pattern in (("a sanitizer's report", SANITIZER), ("a crash", CRASH)):
        found = pattern.search(output)
        if found:
            return f"{what} in its output ({found[0].strip()})"
    return None


@contextlib.contextmanager
def locked(how):
    """Crowds share the lock; who runs alone has it alone."""
    path = os.environ.get("LOCK")
    with open(path, "a") if path else contextlib.nullcontext() as lock:
        if lock:
            fcntl.flock(lock, how)
        yield


def keep(kept, name, first):
    """Keeps a first output, which another run is about to replace; returns its file."""
    kept.mkdir(parents=True, exist_ok=True)
    file = kept / f"{name}.log"
    file.write_text(first)
    return file


def most(total):
    return max(MOST, total // SHARE)


def verdicts(failed, total, kept, again):
    """failed: {name: first output}, of total tests; again(name): (whether it passed, what it printed).
    Prints; returns the names that
    have passed now."""
    passed = []
    written = reports()
    for name, first in failed.items():
        why = fault(first) or (written and f"the sanitizers wrote {written[0]}") or (
            len(failed) > most(total)
            and f"{len(failed)} failed, and more than {most(total)} are no accident")
        if why:
            print(f"not run again: {name}: {why}")
            continue
        file = keep(kept, name, first)
        with locked(fcntl.LOCK_EX):
            ok, second = again(name)
        if ok and reports():
            print(f"not counted as passed alone: {name}: the sanitizers wrote {reports()[0]}")
        elif ok:
            passed.append(name)
            print(f"passed alone, failed in the crowd: {name}, first output in {file}")
            print("".join(f"  | {line}\n" for line in failures.shorter(failures.failures(first), SHOWN)),
                  end="")
        else:
            print(f"failed alone, too: {name}, first output in {file}\n{second}")
    return passed


def closed(failed, passed):
    """The exit code; prints what the sanitizers wrote, which no test may have shown."""
    for file in reports():
        print(f"FAILED: a sanitizer's report: {file}\n{file.read_text(errors='replace')}")
    return 1 if set(failed) - set(passed) or reports() else 0


def printed(argv, **how):
    """(exit code, output), the output passed on as it comes."""
    lines = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **how) as p:
        for line in p.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return p.returncode, "".join(lines)


def of_ctest(preset, arguments, kept):
    with locked(fcntl.LOCK_SH):
        code, output = printed(["ctest", "--preset", preset, *arguments])
    end = re.findall(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", output, re.M)
    if code == 0 or not end:
        return closed([None] if code else [], [])
    failed = {re.search(r"#\d+: (\S+)", head)[1]: "\n".join([head, *lines]) for head,
              lines in failures.of_ctest(output.splitlines())}
    shown = subprocess.run(["ctest", "--preset", preset, "-N", "-L", "program"], stdout=subprocess.PIPE,
                           text=True, check=True).stdout
    programs = set(re.findall(r"^ *Test +#\d+: (\S+)$", shown, re.M))

    def again(name):
        code, second = printed(["ctest", "--preset", preset, "-L", "program", "-R", f"^{re.escape(name)}$"])
        return (code == 0 and "***Skipped" not in second
                and "100% tests passed, 0 tests failed out of 1" in second, "")

    if len(failed) != int(end[-1][0]) or not failed.keys() <= programs:
        print("not run again: " + ", ".join(failed)
              + ": only tests of programs are, and only when nothing else failed")
        return closed([None], [])
    total = int(end[-1][1])
    passed = verdicts(failed, total, kept, again)
    bad = len(failed) - len(passed)
    print(f"{100 * (total - bad) // total}% tests passed, {bad} tests failed out of {total}")
    return closed(failed, passed)


def of_files(at_once, files, kept):
    def named_by(file):
        return f"{file.parent.name}.{file.stem}"

    def run(file):
        begin = time.monotonic()
        done = subprocess.run([PYTHON, "-B", "-m", "unittest", "-v", file.stem], cwd=file.parent,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        print(f"{named_by(file)}: {time.monotonic() - begin:.0f} s, exit code {done.returncode}")
        if done.returncode:
            keep(kept, named_by(file), done.stdout)  # to be read while the others run
        return done.returncode, done.stdout

    with locked(fcntl.LOCK_SH), concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = dict(zip(files, pool.map(run, files)))
    named = {named_by(file): file for file in files}
    failed = {name: results[file][1] for name, file in named.items() if results[file][0]}
    second = {}

    def again(name):
        code, output = run(named[name])
        if code == 0:
            results[named[name]] = 0, output
        second[name] = output
        return code == 0, ""

    passed = verdicts(failed, len(files), kept, again)
    for name, file in named.items():
        print(f"==> {name} <==\n{results[file][1]}", end="")
        if name in second and name not in passed:
            # not counted twice
            print("".join(f"  | {line}\n" for line in second[name].splitlines()), end="")
    return closed(failed, passed)


def of_command(name, command, kept):
    def run():
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout

    with locked(fcntl.LOCK_SH):
        code, output = run()
    second = {}

    def again(_):
        code, second[name] = run()
        return code == 0, ""

    passed = verdicts({name: output} if code else {}, 1, kept, again)
    print(second[name] if passed else output, end="")
    return closed([name] if code else [], passed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("kind", choices=("ctest", "files", "command"))
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    o = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if o.kind == "ctest":
        return of_ctest(o.rest[0], o.rest[1:], o.kept)
    if o.kind == "files":
        return of_files(int(o.rest[0]), [Path(f).absolute() for f in o.rest[1:]], o.kept)
    return of_command(o.rest[0], o.rest[1:], o.kept)


if __name__ == "__main__":
    sys.exit(main())
