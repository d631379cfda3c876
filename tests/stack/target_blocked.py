# SPDX-License-Identifier: Apache-2.0
"""A program of many threads that all block at known places and can say where they are, themselves.

Usage: python -c "$(cat target_blocked.py)" SEED. For CPython 3.8 and later. Prints "ready", then for each
line on standard input one line of JSON: native thread id ->
[[file, line, qualified name], ... innermost first], of every thread but the one that answers.
"""
import asyncio
import ctypes
import functools
import json
import os
import queue
import random
import re
import select
import sys
import threading
import time

quiet_read, quiet_write = os.pipe()
never = threading.Lock()
never.acquire()
blocked = []


def answer(expected):
    """Says "ready" when every thread, the main one too, is where it blocks; then tells all stacks
    whenever it is asked."""
    while len(blocked) < expected:
        time.sleep(0.01)
    time.sleep(0.2)
    print("ready", flush=True)
    for _ in sys.stdin:
        me = threading.get_ident()
        frames = sys._current_frames()
        out = {}
        for thread in threading.enumerate():
            if thread.ident == me or thread.ident not in frames:
                continue
            stack, f = [], frames[thread.ident]
            while f:
                # from 3.11 on
                stack.append([f.f_code.co_filename, f.f_lineno,
                              getattr(f.f_code, "co_qualname", f.f_code.co_name)])
                f = f.f_back
            out[thread.native_id] = stack
        print(json.dumps(out), flush=True)


# --- where a thread ends up: each blocks for good ---

def in_read():
    blocked.append(1)
    os.read(quiet_read, 1)


def in_sleep():
    blocked.append(1)
    time.sleep(
        100000
    )


def in_lock():
    blocked.append(1)
    with never:
        pass


def in_event():
    blocked.append(1)
    threading.Event().wait()


def in_queue():
    blocked.append(1)
    queue.Queue().get()


def in_select():
    blocked.append(1)
    select.select([quiet_read], [], [])


ENDS = [in_read, in_sleep, in_lock, in_event, in_queue, in_select]


# --- ways of calling the next function: f is what to call ---

def plain(f):
    return f()


def keyword(f):
    def nested(*, call):
        value = call()
        return value
    return nested(call=f)


def by_lambda(f):
    return (lambda: (f(),))()


def by_generator(f):
    def numbers():
        yield 1
        try:
            yield f()
        finally:
            pass
    for _ in numbers():
        pass


def by_yield_from(f):
    def inner():
        yield 1
        yield f()

    def outer():
        yield from inner()
    list(outer())


def by_generator_expression(f):
    return list(f() for _ in range(1))


def by_comprehension(f):
    return [
        f()
        for _ in range(1)
    ]


def by_sorted_key(f):
    return sorted([2, 1], key=lambda x: f())


def by_map(f):
    return list(map(lambda x: f(), [1]))


def by_reduce(f):
    return functools.reduce(lambda a, b: f(), [1, 2])


def by_substitution(f):
    return re.sub("x", lambda m: f(), "axb")


def by_exec(f):
    code = compile("\n\ndef made(f):\n    return f(\n    )\nmade(f)\n", "<made by exec>", "exec")
    exec(code, {"f": f})


def by_names(f):
    source = ("class Größe:\n"
              "    def 測定(self, f):\n"
              "        def \U00010280():\n"
              "            return f()\n"
              "        return \U00010280()\n"
              "Größe().測定(f)\n")
    exec(compile(source, "/tmp/größe \U0001F600.py", "exec"), {"f": f})


def by_latin_name(f):
    exec(compile("def größe(f):\n  return f()\ngröße(f)\n", "/tmp/größe.py", "exec"), {"f": f})


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@logged
@logged
def by_decorator(f):
    return f()


class Loader:
    class Inner:
        def __enter__(self):
            return self.call()

        def __exit__(self, *exc):
            return False

    def method(self, f):
        return f()

    @classmethod
    def of_class(cls, f):
        return f()

    @staticmethod
    def static(f):
        return f()

    @property
    def value(self):
        return self.call()

    def __getattr__(self, name):
        if name == "absent":
            return self.call()
        raise AttributeError(name)

    def __call__(self, f):
        return f()

    def __lt__(self, other):
        return self.call()


def by_method(f):
    Loader().method(f)


def by_class_method(f):
    Loader.of_class(f)


def by_static(f):
    Loader.static(f)


def by_property(f):
    o = Loader()
    o.call = f
    return o.value


def by_getattr(f):
    o = Loader()
    o.__dict__["call"] = f
    return o.absent


def by_instance(f):
    Loader()(f)


def by_comparison(f):
    a, b = Loader(), Loader()
    a.call = b.call = f
    return sorted([a, b])


def by_with(f):
    manager = Loader.Inner()
    manager.call = f
    with manager:
        pass


def by_class_body(f):
    class Body:
        x = 1
        y = f()
    return Body


def by_handler(f):
    try:
        raise ValueError
    except ValueError:
        try:
            pass
        finally:
            f()


def by_match(f):
    if sys.version_info < (3, 10):
        return f()
    exec(compile("match [1, 2]:\n    case [1, x]:\n        f()\n", "<match>", "exec"), {"f": f})


def by_long_lines(f):
    return plain(
        functools.partial(
            plain,
            lambda:
                f(),
        ),
    )


def by_coroutine(f):
    async def inner():
        return f()

    async def outer():
        await inner()
    coroutine = outer()
    try:
        coroutine.send(None)
    except StopIteration:
        pass


def by_asyncio(f):
    async def main():
        await asyncio.sleep(0)
        f()
    asyncio.run(main())


def by_huge_function(f):
    body = "".join("    x = %d\n" % i for i in range(3000))
    exec(compile("def huge(f):\n" + body + "    f()\n" + body + "huge(f)\n", "<huge>", "exec"), {"f": f})


def by_callback(f):
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                               ctypes.POINTER(ctypes.c_int))(lambda a, b: f() or 0)
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, compare)


def by_async_generator(f):
    async def numbers():
        yield 1
        yield f()

    async def main():
        async for _ in numbers():
            pass
    asyncio.run(main())


def by_async_with(f):
    class Manager:
        async def __aenter__(self):
            f()

        async def __aexit__(self, *exc):
            return False

    async def main():
        async with Manager():
            pass
    asyncio.run(asyncio.wait_for(main(), None))


def by_recursion(f, depth=30):
    if depth == 0:
        return f()
    return by_recursion(f, depth - 1)


WAYS = [v for k, v in sorted(globals().items()) if k in ("plain", "keyword") or k.startswith("by_")]
# event loops do not nest
MANY = [way for way in WAYS if way not in (by_asyncio, by_async_generator, by_async_with)]


def compose(ways, end):
    f = end
    for way in reversed(ways):
        f = functools.partial(way, f)
    return f


def recurse(n):
    if n > 0:
        return recurse(n - 1)
    in_read()


def main():
    rng = random.Random(int(sys.argv[1]))
    sys.setrecursionlimit(3000)
    threading.stack_size(64 * 1024 * 1024)
    bodies = [compose([way], end) for way, end in zip(WAYS, ENDS * len(WAYS))]
    bodies += [compose([rng.choice(MANY) for _ in range(40)], rng.choice(ENDS)) for _ in range(17)]
    bodies += [functools.partial(recurse, 1000)]
    for body in bodies:
        threading.Thread(target=body, daemon=True).start()
    threading.Thread(target=answer, args=(len(bodies) + 1,), daemon=True).start()
    in_lock()


main()
