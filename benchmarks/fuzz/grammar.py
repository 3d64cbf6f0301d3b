"""Sentences of a grammar over the modelled libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


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
                for name in rng.sample(self.METHODS, 3)
            )
            parts.append(f"class Thing{'' if number == 0 else number}{base}:\n{methods}")
        for number in range(rng.randint(1, 3)):
            sign = rng.choice(self.SIGNATURES)
            parts.append(f"{rng.choice(('', 'async '))}def f{number}({sign}):\n{self.block(3, '    ')}")
        return "".join(parts)
