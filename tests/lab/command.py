"""Runs commands of this machine, with errors that carry what the command said."""

import subprocess


class LabError(Exception):
    """The lab could not do what it was asked for; the text says what and what to do."""


def sh(*argv, input=None, check=True, timeout=60):
    """Runs argv to its end and returns its standard output; raises LabError unless it exits 0."""
    try:
        done = subprocess.run([str(a) for a in argv], input=input, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL if input is None else None,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed: run sudo tools/deps lab") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(map(str, argv))}: no end within {timeout} s") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise LabError(f"{' '.join(map(str, argv))}: exit code {done.returncode}: {said}")
    return done.stdout
