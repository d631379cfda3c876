"""Boots real hosts for tests: see README.md in this directory."""

from .command import LabError
from .host import Host, Result
from .laboratory import Lab

__all__ = ["Host", "Lab", "LabError", "Result"]
