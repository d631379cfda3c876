# SPDX-License-Identifier: Apache-2.0
"""Two threads that never rest and count how often they came round, in a file of two 8-byte numbers, open as
the descriptor that
argument 1 names.

Each call below stands on a line of its own, so that the test can tell from the source which line can call
which function.
"""
import mmap
import sys
import threading

with open(int(sys.argv[1]), "r+b") as f:
    counters = memoryview(mmap.mmap(f.fileno(), 16)).cast("Q")
sys.setswitchinterval(0.001)


def leaf_a(x):
    x += 1
    x *= 2
    return x


def leaf_b(x):
    y = 0
    for i in range(5):
        y += x
    return y


def leaf_c(x):
    return x


def middle_a(x):
    x = leaf_a(x)
    x = leaf_b(x)
    x = leaf_c(1)
    return x


def middle_b(x):
    x = leaf_c(x)
    x = leaf_a(1)
    x = middle_a(x)
    return x


def numbers(x):
    yield leaf_a(x)
    yield leaf_b(x)


def deep(n, x):
    if n > 0:
        return deep(n - 1, x)
    x = middle_a(x)
    x = middle_b(x)
    return x


def consume(x):
    for v in numbers(x):
        leaf_c(v)


def spin(which):
    while True:
        middle_a(1)
        middle_b(2)
        deep(12, 3)
        consume(4)
        counters[which] += 1


threading.Thread(target=spin, args=(1,), daemon=True).start()
print("ready", flush=True)
spin(0)
