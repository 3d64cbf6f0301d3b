"""The tables of the frameworks agree with themselves: effects name parameters that their row has.

Whether the calls exist is tested in ``test_rows.py``, against the installed libraries.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from streamlint import models
from streamlint.models import schema, vocabulary
from streamlint.models.schema import Api, Effect, Framework, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

IMPLIED = frozenset({"self", "current", "default"})
"""Names that effects may use and that are no parameters: the receiver, the current and the default stream."""
OPTIONAL = frozenset({"device"})
"""Asked for where a row has it: most rows act on the current device."""
DEFAULTS = frozenset({"stream", "event", "flags", "count", "size", "kernel"})
"""The usual names, which effects ask for where a row does not say otherwise."""
NO_PARAMETER = frozenset("path kind flag_kind unset space makes pool code lib told_by when".split())
"""Fields of effects that name something else than a parameter."""


def rows(framework: Framework) -> Iterator[tuple[str, Api]]:
    yield from (("function", api) for api in framework.functions)
    for role in Role:
        yield from ((role.value, api) for api in models.methods_of(framework, role))


ROWS = [
    pytest.param(framework, api, id=f"{framework.lib.value}:{kind}:{api.name}")
    for framework in models.FRAMEWORKS
    for kind, api in rows(framework)
]


def named_parameters(effect: Effect) -> Iterator[str]:
    """The parameters that an effect refers to."""
    for field in fields(effect):
        value = getattr(effect, field.name)
        if field.name in NO_PARAMETER:
            continue
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str) and name:
                yield name.partition(".")[0]


@pytest.mark.parametrize(("framework", "api"), ROWS)
def test_effects_refer_to_parameters_of_their_row(framework: Framework, api: Api) -> None:
    forms = " ".join((api.params, *api.overloads))
    known = {*(name.lstrip("*") for name in forms.split()), *IMPLIED, *OPTIONAL}
    kept = {name for other in framework.functions for name in kept_by(other) if api.name.find("()") > 0}
    for effect in api.effects:
        unknown = set(named_parameters(effect)) - known - kept
        assert unknown <= DEFAULTS, f"{api.name} has no parameter {sorted(unknown)}"


def kept_by(api: Api) -> Iterator[str]:
    for effect in api.effects:
        made = effect.makes if isinstance(effect, schema.Launches) else effect
        if isinstance(made, schema.Makes):
            yield from made.keeps


@pytest.mark.parametrize("framework", models.FRAMEWORKS, ids=[f.lib.value for f in models.FRAMEWORKS])
def test_what_a_row_makes_has_rows(framework: Framework) -> None:
    """``Makes(path)`` is of use only if calling it or one of its methods is a row."""
    paths = {f"{module}.{api.name}" for module in framework.modules for api in framework.functions}
    elementwise = {"cupy.ElementwiseKernel()", "cupy.ReductionKernel()"}
    for _, api in rows(framework):
        for effect in api.effects:
            if isinstance(effect, schema.Makes) and not effect.keeps and effect.path not in elementwise:
                known = any(path == effect.path or path.startswith(f"{effect.path}.") for path in paths)
                assert known, f"nothing is known about {effect.path}"


def test_names_are_unique() -> None:
    for framework in models.FRAMEWORKS:
        listed = [(kind, api.name) for kind, api in rows(framework)]
        assert len(listed) == len(set(listed)), f"{framework.lib.value}: a row stands twice"


def test_telling_names_belong_to_one_kind_of_object() -> None:
    """A name that tells what an unknown receiver is must not mean different objects."""
    seen: dict[str, Role] = {}
    for framework in models.FRAMEWORKS:
        for role in Role:
            for api in models.methods_of(framework, role):
                if api.telling is not None:
                    assert seen.setdefault(api.name, role) is role


@pytest.mark.parametrize(
    ("name", "keywords", "found"),
    [
        ("copy_to_host", (), True),
        ("copy_to", (), False),
        ("copy_to", ("stream",), True),
        ("get", (), False),
        ("get", ("out", "blocking"), True),
        ("append", ("stream",), False),
    ],
)
def test_receivers_are_told_by_method_and_keyword(name: str, keywords: tuple[str, ...], found: bool) -> None:
    assert (models.find_telling(name, keywords) is not None) is found


def test_whose_argument_waits() -> None:
    """``event.wait(side)`` makes ``side`` wait; ``current.wait_stream(side)`` waits for it."""
    assert {"wait", "cudaStreamWaitEvent", "cuStreamWaitEvent"} <= vocabulary.FORKS_ARGUMENT
    assert vocabulary.FORKS_ARGUMENT.isdisjoint({"wait_stream", "wait_event"})
    assert "wait_stream" in vocabulary.JOINS_ARGUMENT
