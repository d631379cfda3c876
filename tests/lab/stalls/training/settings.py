"""Numbers that may be changed while a training runs: a JSON file that is read again when it was changed."""
import json
import os

DEFAULTS = {"cache_items": 1024, "windows_apart": 2, "scan_stride": 1, "augment_seconds": 0,
            "tidy_seconds": 0, "last_step": 0, "accounts_reversed": 0, "keep_tally": 0, "one_more": 0}


class Settings:
    def __init__(self, path):
        self.path, self.stamp, self.values = path, None, dict(DEFAULTS)
        self.refresh()

    def refresh(self):
        try:
            stamp = os.stat(self.path).st_mtime_ns
            if stamp != self.stamp:
                with open(self.path, encoding="utf-8") as f:
                    self.values = {**DEFAULTS, **json.load(f)}
                self.stamp = stamp
        except FileNotFoundError:
            pass

    def __getitem__(self, name):
        return self.values[name]
