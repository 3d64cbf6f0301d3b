"""Runs the analysis over programs that nobody would write, and says where it fails.

    python benchmarks/fuzz.py --seed 1 --count 10000
    python benchmarks/fuzz.py --seed 1 --seconds 600 --from ~/src/project --keep /tmp/failed

Programs are mutations of the fixtures, and of real files with ``--from``; sentences of a grammar over the
modelled libraries; and bytes. Number ``n`` of a seed is always the same program. Watched are internal errors,
time, memory, whether a second run says the same, and whether findings come and go with a comment. What fails
is kept with ``--keep``, and a child that hangs is killed: the parent goes on with the next program.
"""

from __future__ import annotations

import argparse
import ast
import io
import multiprocessing
import random
import re
import sys
import time
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.interp.state.budgets import resident
from streamlint.run.engine import Settings, analyze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from streamlint.finding import Report

ROOT = Path(__file__).parent.parent
SECONDS = 20.0
"""A program of a few hundred lines takes no longer ..."""
BYTES = 1_000_000_000
"""... and makes the process no larger than by this."""
PATIENCE = 120.0
"""After this a child is taken to hang."""


@dataclass(frozen=True)
class Program:
    """One program, and how it was made."""

    number: int
    kind: str
    data: bytes


@dataclass
class Trouble:
    """What went wrong with one program."""

    program: Program
    what: str


@dataclass
class Outcome:
    """What a run has seen."""

    kinds: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    slowest: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)


# ----------------------------------------------------------------------------- programs


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
                data[at:at] = rng.choice(
                    (b"\0", b"\xff\xfe", b"\r", b"\x0c", b"\xef\xbb\xbf", b"\\\n", b"'''")
                )
        data = data or bytearray(b"\n")
    return bytes(data)


class Sentence:
    """A random program that mostly parses, about streams, events and memory of the modelled libraries."""

    NAMES = ("x", "y", "s", "t", "e", "side", "buf", "self.s", "self.buf", "items", "d", "g")
    MAKE = (
        "torch.cuda.Stream()",
        "torch.cuda.Event()",
        "torch.empty(8, device='cuda')",
        "torch.empty(8, pin_memory=True)",
        "torch.cuda.current_stream()",
        "cp.cuda.Stream(non_blocking=True)",
        "cp.zeros(8)",
        "cuda.stream()",
        "torch.cuda.CUDAGraph()",
        "threading.Thread(target=helper)",
        "queue.Queue()",
        "cudart.cudaStreamCreate()[1]",
        "Thing()",
        "helper",
        "Thing",
        "[]",
        "{}",
        "()",
        "None",
        "3",
        "'k'",
        "10**30",
    )
    CALLS = (
        "{0}.wait_stream({1})",
        "{0}.wait_event({1})",
        "{0}.record({1})",
        "{0}.synchronize()",
        "{0}.query()",
        "{0}.record_stream({1})",
        "{0}.copy_({1}, non_blocking=True)",
        "{0}.to('cuda', non_blocking=True)",
        "{0}.cpu()",
        "{0}.sum().item()",
        "{0}.add_({1})",
        "{0}.append({1})",
        "{0}.extend({1})",
        "{0}.pop()",
        "{0}.replay()",
        "{0}.start()",
        "{0}.put({1})",
        "{0}.get()",
        "{0}.foo({1})",
        "{0}({1})",
        "torch.matmul({0}, {1})",
        "torch.cuda.synchronize()",
        "helper({0}, {1})",
        "Thing({0})",
        "len({0})",
        "list({0})",
        "tuple({0})",
        "dict({0})",
        "zip({0}, {1})",
        "enumerate({0})",
        "range({0})",
        "isinstance({0}, {1})",
        "getattr({0}, 'a', {1})",
        "super().run({0})",
        "cudart.cudaMemcpyAsync({0}, {1}, 8, 1, s)",
        "functools.partial({0}, {1})",
        "next({0})",
        "unknown({0}, {1})",
    )

    METHODS = ("__init__", "run", "wait", "__call__", "__enter__", "step", "_help")
    SIGNATURES = ("x: torch.Tensor", "x, s, e", "x: torch.Tensor, s: torch.cuda.Stream", "*items")

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def name(self) -> str:
        return self.rng.choice(self.NAMES)

    def value(self, depth: int = 3) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return rng.choice((self.name(), self.name(), rng.choice(self.MAKE)))
        one, other = self.value(depth - 1), self.value(depth - 1)
        return rng.choice(
            (
                rng.choice(self.CALLS).format(self.name(), one),
                rng.choice(self.CALLS).format(self.name(), one),
                f"({one} {rng.choice('+ - * / % & | ** << == < in is and or'.split())} {other})",
                f"{self.name()}[{one}]",
                f"{self.name()}[{one}:{other}]",
                f"[{one} for i in {other}]",
                f"{{{one}: {other}}}",
                f"({one}, {other})",
                f"[{one}, *{self.name()}]",
                f"(lambda v: {one})",
                f"({one} if {other} else {self.name()})",
                f"f'{{{self.name()}}}'",
                f"({self.name().rpartition('.')[2]} := {one})",
            )
        )

    def block(self, depth: int, indent: str) -> str:
        return "".join(self.statement(depth, indent) for _ in range(self.rng.randint(1, 4)))

    def statement(self, depth: int, indent: str) -> str:
        rng, inner = self.rng, indent + "    "
        simple = (
            f"{self.name()} = {self.value()}",
            f"{self.name()} = {rng.choice(self.MAKE)}",
            f"{self.name()} = {self.name()} + {self.name()}",
            f"{self.name()} {rng.choice(('+=', '*=', '|='))} {self.value(1)}",
            rng.choice(self.CALLS).format(self.name(), self.value(1)),
            rng.choice(self.CALLS).format(self.name(), self.name()),
            f"{self.name()}[{self.value(1)}] = {self.value(2)}",
            f"return {self.value(2)}",
            f"yield {self.value(1)}",
            f"del {self.name()}",
            f"assert {self.value(2)}",
            f"a, *b = {self.value(2)}",
            "raise ValueError",
            "global side",
        )
        if depth == 0 or rng.random() < 0.6:
            return f"{indent}{rng.choice(simple)}\n"
        body = self.block(depth - 1, inner)
        return rng.choice(
            (
                f"{indent}with torch.cuda.stream({self.name()}):\n{body}",
                f"{indent}with torch.cuda.stream({self.name()}):\n{body}",
                f"{indent}with {self.value(1)} as {self.name()}:\n{body}",
                f"{indent}with torch.cuda.graph({self.name()}):\n{body}",
                f"{indent}if {self.value(2)}:\n{body}{indent}else:\n{self.block(depth - 1, inner)}",
                f"{indent}for {rng.choice(('i', 'x', 's', 'i, x'))} in {self.value(2)}:\n{body}",
                f"{indent}for i in range({rng.choice(('3', 'n', '10**9', 'len(items)'))}):\n{body}",
                f"{indent}while {self.value(1)}:\n{body}",
                f"{indent}try:\n{body}{indent}except Exception:\n{self.block(depth - 1, inner)}",
                f"{indent}def g(x, *s, **d):\n{body}",
                f"{indent}match {self.name()}:\n{inner}case {{'k': x}}:\n{self.block(0, inner + '    ')}",
            )
        )

    def module(self) -> str:
        rng = self.rng
        head = (
            "import functools, queue, threading, torch\nimport cupy as cp\nfrom numba import cuda\n"
            "from cuda.bindings import runtime as cudart\n"
        )
        parts = [head, self.block(1, "") if rng.random() < 0.5 else "side = torch.cuda.Stream()\n"]
        parts.append(f"def helper(x=None, y=None):\n{self.block(2, '    ')}")
        for number in range(rng.randint(0, 2)):
            base = rng.choice(("", "(torch.nn.Module)", "(Thing)", "(threading.Thread)"))
            methods = "".join(
                rng.choice(("", "    @property\n", "    @staticmethod\n", "    @functools.lru_cache\n") * 2)
                + f"    def {name}(self, x=None, *a):\n{self.block(2, '        ')}"
                for name in rng.sample(
                    ("__init__", "run", "wait", "__call__", "__enter__", "step", "_help"), 3
                )
            )
            parts.append(f"class Thing{'' if number == 0 else number}{base}:\n{methods}")
        for number in range(rng.randint(1, 3)):
            sign = rng.choice(
                ("x: torch.Tensor", "x, s, e", "x: torch.Tensor, s: torch.cuda.Stream", "*items")
            )
            parts.append(f"{rng.choice(('', 'async '))}def f{number}({sign}):\n{self.block(3, '    ')}")
        return "".join(parts)


# ----------------------------------------------------------------------------- checks


def check(program: Program, outcome: Outcome, *, again: bool) -> Iterator[str]:
    """What is wrong with the analysis of a program; with ``again`` it is run more than once."""
    started, size = time.process_time(), resident()
    report = analyzed(program.data)
    seconds = time.process_time() - started
    outcome.kinds[program.kind] += 1
    outcome.findings += len(report.findings)
    outcome.slowest = max(outcome.slowest, seconds)
    yield from (error.message for error in report.errors if "internal error" in error.message)
    if seconds > SECONDS:
        yield f"took {seconds:.0f} s"
    if resident() - size > BYTES:
        yield f"took {(resident() - size) // 10**6} MB"
    if again and seconds < 2:
        if told(analyzed(program.data)) != told(report):
            yield "a second run tells something else"
        with_comments = commented(program)
        if with_comments is not None:
            changed = meaning(analyzed(with_comments)) ^ meaning(report)
            if changed:
                yield f"a comment changes findings: {min(changed)}"


def analyzed(data: bytes) -> Report:
    path = ROOT / "fuzzed.py"
    return analyze(ROOT, [path], Settings(), overlay={path: data})


def told(report: Report) -> list[str]:
    return [repr(finding) for finding in report.findings] + [repr(error) for error in report.errors]


def meaning(report: Report) -> set[tuple[str, str, str]]:
    """What findings say, wherever they stand."""
    return {
        (f.fingerprint, f.confidence.value, re.sub(r"\bline \d+", "line", f.message)) for f in report.findings
    }


def commented(program: Program) -> bytes | None:
    """The program with comments and blank lines between statements; None if it cannot be parsed."""
    rng = random.Random(f"comments of {program.number}")  # noqa: S311
    try:
        text = program.data.decode()
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    # A line after one that ends a statement is in no string and in no bracket.
    ends = sorted({token.start[0] for token in tokens if token.type == tokenize.NEWLINE})
    if not tree.body or not ends or "\r" in text or "\x0c" in text:
        return None
    lines = text.split("\n")
    for end in sorted(rng.sample(ends, min(len(ends), 5)), reverse=True):
        lines[end:end] = rng.choice((["# a comment"], [""], ["", "        # deep", ""]))
    return "\n".join(lines).encode()


# ----------------------------------------------------------------------------- runs


def run(programs: Programs, numbers: Iterable[int], every: int = 5) -> Outcome:
    """Checks programs in this process."""
    outcome = Outcome()
    for number in numbers:
        program = programs[number]
        for what in check(program, outcome, again=number % every == 0):
            outcome.troubles.append(Trouble(program, what))
    return outcome


def _child(pipe: Connection, seed: int, folders: Sequence[Path], first: int, count: int) -> None:
    _limit_memory()
    programs = Programs(seed, folders)
    for number in range(first, first + count):
        pipe.send(number)
        pipe.send(run(programs, [number]))
    pipe.send(None)


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (6 * BYTES, 6 * BYTES))


def watched(
    seed: int, folders: Sequence[Path], first: int, count: int, on: Callable[[int, Outcome], bool]
) -> None:
    """Checks programs in a child. Where one hangs or dies, the next child goes on behind it.

    ``on`` gets what came of each and says whether to go on.
    """
    context = multiprocessing.get_context("spawn")
    last = first + count
    while first < last:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(theirs, seed, folders, first, last - first), daemon=True)
        child.start()
        theirs.close()
        number: int | None = first
        try:
            while ours.poll(PATIENCE):
                number = ours.recv()
                if number is None:
                    return
                first = number + 1
                if not ours.poll(PATIENCE):
                    break
                if not on(number, ours.recv()):
                    return
            what = f"hangs: killed after {PATIENCE:.0f} s"
        except EOFError:
            what = "the process died"
        finally:
            child.kill()
            child.join()
        program = Programs(seed, folders)[first - 1]
        if not on(first - 1, Outcome(troubles=[Trouble(program, what)])):
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=1_000_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--from", dest="folders", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--keep", type=Path, help="a folder for programs that fail")
    options = parser.parse_args()
    started, total, done = time.monotonic(), Outcome(), [0]

    def on(number: int, outcome: Outcome) -> bool:
        done[0] += 1
        total.kinds += outcome.kinds
        total.findings += outcome.findings
        total.slowest = max(total.slowest, outcome.slowest)
        for trouble in outcome.troubles:
            total.troubles.append(trouble)
            print(f"{number} ({trouble.program.kind}): {trouble.what}", flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{options.seed}-{number}.py").write_bytes(trouble.program.data)
        return time.monotonic() - started < options.seconds

    watched(options.seed, [ROOT / "fixtures", *options.folders], options.first, options.count, on)
    print(
        f"{done[0]} programs of seed {options.seed} in {time.monotonic() - started:.0f} s "
        f"({dict(sorted(total.kinds.items()))}): {total.findings} findings, the slowest took "
        f"{total.slowest:.1f} s, {len(total.troubles)} troubles"
    )
    return min(len(total.troubles), 1)


if __name__ == "__main__":
    sys.exit(main())
