# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Random damage to bytes, text and values."""

import re
import struct

UNUSUAL_WORDS = (
    *("", " ", "nan", "NaN", "inf", "-inf", "1e400", "-1e400", "1e308", "5e-324", "-0", "0", "1"),
    *("-1", "1e-9", "0x10", "1,5", "1 2 3", "0 0 0", "1 0 0 1", "true", "null", "~", "{}", "[]"),
    *(
        "None",
        "9" * 400,
        "a" * 5_000,
        "\U0001f916",
        "é",
        "\x00",
        "\x1b[31m",
        "\ud800",
        "%s%n",
        "{0}",
    ),
    *("../../../etc/passwd", "/dev/zero", "/", "file:///dev/zero", "package://a/b", "<!--", "]]>"),
    *("&lt;", "&#0;", "*a", "&a", "!!python/object:x.y", "- ", ": ", "|", ">", "\t", "\r\n", "\n"),
)
UNUSUAL_NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1e-9, 1e-300, 5e-324, 1e9, 1e12, 1e300, 1.7e308, -1e300),
    *(float("nan"), float("inf"), float("-inf"), 3.14159, 1e6, 2.0**31, 2.0**53, 2.0**63),
)
UNUSUAL_INTEGERS = (0, 1, 2, 3, 255, 256, 65_535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
TOKEN = re.compile(r"[^\s<>=\"'/,:\[\]{}]+")


def mutate_bytes(rng, data, samples=()):
    """Return bytes with one to three damages; ``samples`` are other inputs, to splice with."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not data:
            data += bytes(rng.randrange(256) for _ in range(rng.randint(1, 20)))
        place = rng.randrange(len(data))
        length = min(int(rng.expovariate(0.05)) + 1, len(data) - place)
        kind = rng.randrange(9)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        elif kind == 4:
            del data[place:]
        elif kind == 5:
            size, kind = rng.choice(((2, "<H"), (4, "<I"), (8, "<Q"), (4, ">I")))
            value = rng.choice(UNUSUAL_INTEGERS) & ((1 << 8 * size) - 1)
            data[place : place + size] = struct.pack(kind, value)
        elif kind == 6:
            data[place : place + 8] = struct.pack("<d", rng.choice(UNUSUAL_NUMBERS))
        elif kind == 7 and samples:
            other = rng.choice(samples)
            start = rng.randrange(len(other)) if other else 0
            data[place : place + length] = other[start : start + length]
        else:
            data[place : place + length] = bytes(rng.randrange(256) for _ in range(length))
    return bytes(data)


def mutate_text(rng, text, words=()):
    """Return a text with one to three damages; ``words`` are put in place of others."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.randrange(7)
        tokens = list(TOKEN.finditer(text)) if kind < 4 else ()
        if kind < 4 and tokens:
            token = rng.choice(tokens)
            word = rng.choice(words) if words and kind < 2 else rng.choice(UNUSUAL_WORDS)
            text = text[: token.start()] + word + text[token.end() :]
        elif kind in (4, 5):
            lines = text.split("\n")
            start = rng.randrange(len(lines))
            stop = min(start + 1 + int(rng.expovariate(0.5)), len(lines))
            place = rng.randrange(len(lines) + 1)
            if kind == 4:
                lines[place:place] = lines[start:stop]
            else:
                del lines[start:stop]
            text = "\n".join(lines)
        else:
            text = mutate_bytes(rng, text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return text


def unusual_value(rng, depth=2):
    """Return a value of any type."""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice(UNUSUAL_WORDS)
    if kind in (1, 2):
        return rng.choice(UNUSUAL_NUMBERS)
    if kind == 3:
        return rng.choice(UNUSUAL_INTEGERS) * rng.choice((1, -1))
    if kind == 4:
        return rng.choice((True, False, None))
    if kind == 5:
        return rng.choice((b"", b"\xff\x00", 1j, 10**40, object(), range(3), float, lambda: 0))
    if depth and kind == 6:
        return {unusual_key(rng): unusual_value(rng, depth - 1) for _ in range(rng.randrange(4))}
    if depth:
        values = [unusual_value(rng, depth - 1) for _ in range(rng.randrange(5))]
        return rng.choice((list, tuple))(values)
    return rng.random()


def unusual_key(rng):
    return rng.choice((*UNUSUAL_WORDS[:8], 0, 1.5, None, True, ()))
