"""What this machine's own apt is set up with, so that no package source is named in the project.

apt itself is asked: it reads deb822 and one-line sources alike.
"""

import re

from .command import LabError, sh

SUITE = "bookworm"


def _targets():
    listing = sh("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(CODENAME) $(COMPONENT)",
                 "Created-By: Packages")
    rows = [line.split() for line in listing.splitlines()]
    wanted = re.compile(rf"{SUITE}(-updates|-security)?$")
    return [row for row in rows if len(row) == 4 and wanted.match(row[2]) and row[3] == "main"]


def sources():
    """Returns (mirror, lines): where the suite itself is, and one-line sources for it and its updates."""
    targets = _targets()
    if not targets:
        sh("apt-get", "-q", "update", timeout=300)
        targets = _targets()
    mirrors = [row[0] for row in targets if row[2] == SUITE]
    if not mirrors:
        raise LabError(f"this machine's apt sources do not offer Debian {SUITE} main: "
                       "check /etc/apt/sources.list and /etc/apt/sources.list.d")
    lines = sorted({f"deb {uri} {release} {component}" for uri, release, _, component in targets})
    return mirrors[0], "\n".join(lines) + "\n"


def transport():
    """Returns this machine's apt settings for reaching its sources (proxies, dates) as apt.conf text."""
    lines = sh("apt-config", "dump", "Acquire").splitlines()
    return "".join(line + "\n" for line in lines if "IndexTargets" not in line and "Changelogs" not in line)
