"""Tokens that may be wanted again; the oldest go when there are too many."""
import threading


class Cache:
    def __init__(self, settings):
        self.settings, self.lock, self.items = settings, threading.Lock(), {}

    def get(self, key, make):
        with self.lock:
            if key not in self.items:
                self.items[key] = make()
            if len(self.items) > self.settings["cache_items"]:
                self.trim()
            return self.items[key]

    def trim(self):
        with self.lock:
            while len(self.items) > self.settings["cache_items"]:
                del self.items[next(iter(self.items))]
