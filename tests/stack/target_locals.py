# SPDX-License-Identifier: Apache-2.0
"""Blocks with variables of every kind in two frames, one of which is a generator's and one a closure's."""
import time


class Tensor:
    pass


def inner(number, *rest, flag=False):
    small, negative, zero, large, huge = 7, -123456789, 0, 10**15, 1 << 200
    real, nothing, truth = 0.1, None, True
    text, long_text, wide = "caf\u00e9 \u2603", "x" * 1000, "\U0001F600"
    api_token, password = "t0ps3cret", "hunter2"
    num_tokens = 512
    raw, items, pair, table, thing = b"t0ps3cret", [1, 2, 3], (1, 2), {"a": 1}, Tensor()
    shared = "in a cell"

    def uses():
        return shared
    print("ready", flush=True)
    time.sleep(1000)
    unset = uses
    return unset, small, negative, zero, large, huge, real, nothing, truth, text, long_text, wide, api_token, password, num_tokens, raw, items, \
        pair, table, thing


def numbers(count):
    yield inner(count, 1, 2, flag=True)


list(numbers(3))
