"""What methods of a class make for its object, by their text: queues, and threads that run its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import flags, scopes
from streamlint.models import host, python
from streamlint.trace import MonitorKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope


def holds_queue(project: Project, cls: ir.ClassDecl, name: str) -> bool:
    """Whether methods put a queue into an attribute: ``self.output = queue.Queue(4)``."""
    return any(f"queue.{ir.called(call)}" in host.QUEUES for _, call in _makers(project, cls, name))


def counting(project: Project, module: ir.Module, function: str) -> Iterator[str]:
    """The functions that may say what is done of a queue that a function has: ``self.queue.task_done()``.

    Not those of other classes that make queues of their own.
    """
    done, owner = host.SIGNALS[MonitorKind.TASKS], function.rpartition(".")[0]
    for decl, cls in scopes.methods_and_functions(module):
        if done.isdisjoint(decl.called):
            continue
        other = cls if cls is not None and cls.qualname != owner else None
        if other is None or not any(holds_queue(project, other, name) for name in decl.own):
            yield decl.qualname


def holds_thread(project: Project, cls: ir.ClassDecl, name: str) -> bool:
    """Whether methods put a thread into an attribute that runs one of them, and nothing else does.

    ``self.worker = threading.Thread(target=self.load, daemon=True)``
    """
    threads = [
        f"threading.{ir.called(call)}" in python.THREADS and _runs_own(scope, call)
        for scope, call in _makers(project, cls, name)
    ]
    return bool(threads) and all(threads)


def _runs_own(scope: Scope, call: ir.Call) -> bool:
    for arg in call.args:
        match arg:
            case ir.Arg(keyword="target", value=ir.Attr(value=ir.Name(id=owner), name=method)):
                return owner == scope.receiver and scope.cls is not None and method in scope.cls.methods
            case _:
                pass
    return False


def _makers(project: Project, cls: ir.ClassDecl, name: str) -> Iterator[tuple[Scope, ir.Call]]:
    for scope, made in flags.stored_by(project, project.ancestors(cls)[0], name, inside=True):
        if isinstance(made, ir.Call):
            yield scope, made
