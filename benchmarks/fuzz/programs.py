"""The programs that are made: mutations of texts, sentences of the grammar, bytes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.fuzz.grammar import Sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Program:
    """One program, and how it was made."""

    number: int
    kind: str
    data: bytes


class Programs:
    """All programs of a seed."""

    def __init__(self, seed: int, folders: Sequence[Path]) -> None:
        self._seed = seed
        paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
        self._texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
        self._texts = [text for text in self._texts if 0 < len(text) < 60_000]

    def __getitem__(self, number: int) -> Program:
        rng = random.Random(f"{self._seed}:{number}")  # noqa: S311
        kind = rng.choices(("lines", "tokens", "grammar", "bytes"), (35, 30, 30, 5))[0]
        match kind:
            case "lines":
                text = _lines(rng, self._texts)
            case "tokens":
                text = _tokens(rng, rng.choice(self._texts))
            case "grammar":
                text = Sentence(rng).module()
            case _:
                return Program(number, kind, _bytes(rng, rng.choice(self._texts)))
        return Program(number, kind, text.encode("utf-8", "surrogatepass"))


def _lines(rng: random.Random, texts: Sequence[str]) -> str:
    """Lines left out, doubled, swapped, moved in and out, and taken from elsewhere."""
    lines = rng.choice(texts).split("\n")
    for _ in range(rng.randint(1, 6)):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(7):
            case 0:
                del lines[at : at + rng.randint(1, 3)]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = "    " + lines[at]
            case 4:
                lines[at] = lines[at].removeprefix("    ")
            case 5:
                foreign = rng.choice(texts).split("\n")
                start = rng.randrange(len(foreign))
                lines[at:at] = foreign[start : start + rng.randint(1, 12)]
            case _:
                lines[at : at + 4] = lines[at : at + 4] * rng.choice((2, 3, 40))
        lines = lines or [""]
    return "\n".join(lines)


_ODD = (
    "None 0 1 -1 10**9 9**9**9 '' 'x'*10**9 b'' ... () [] {} x self side stream event not in is lambda "
    "yield await * ** ** / // @ % << >> & | ^ ~ < == != := : , . ; ( ) [ ] { } = += -= *= for if else while "
    "with as def class return raise try except finally break continue pass import from global nonlocal del "
    "assert async"
).split()


def _tokens(rng: random.Random, text: str) -> str:
    """Tokens exchanged for others of the file and for odd ones."""
    parts = re.split(r"(\w+|[^\w\s])", text)
    places = [place for place in range(1, len(parts), 2) if parts[place]]
    if not places:
        return text
    for _ in range(rng.randint(1, 8)):
        at = rng.choice(places)
        match rng.randrange(4):
            case 0:
                parts[at] = parts[rng.choice(places)]
            case 1:
                parts[at] = rng.choice(_ODD)
            case 2:
                parts[at] = ""
            case _:
                parts[at] += " " + parts[rng.choice(places)]
    return "".join(parts)


_ODD_BYTES = (b"\0", b"\xff\xfe", b"\r", b"\x0c", b"\xef\xbb\xbf", b"\\\n", b"'''")


def _bytes(rng: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 20)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                data[at:at] = rng.choice(_ODD_BYTES)
        data = data or bytearray(b"\n")
    return bytes(data)
