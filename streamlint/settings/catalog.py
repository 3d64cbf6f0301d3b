"""All rules a user can name, and which of them a run reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from streamlint.errors import UserError
from streamlint.finding import Severity
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class RuleInfo(Protocol):
    """What every rule tells about itself."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str:
        """What it flags, as a phrase: ``a stream reads what ...``."""
        ...

    @property
    def severity(self) -> Severity: ...
    @property
    def default(self) -> bool:
        """Whether the rule is on when nothing is selected."""
        ...

    @property
    def doc(self) -> str:
        """Markdown: what it does, why, example, use instead, limits, source."""
        ...


@frozen()
class CommentRule:
    """A rule about suppression comments, which no analysis is needed for."""

    code: str
    name: str
    summary: str
    doc: str
    severity: Severity = Severity.WARNING
    default: bool = True


UNUSED_SUPPRESSION = CommentRule(
    "SL001",
    "unused-suppression",
    "a suppression comment that suppresses nothing",
    """\
## What it does

Reports a `# streamlint: ignore[...]` comment, or one of its codes, that hides no finding.

## Why is this bad?

The problem was fixed, or moved. The comment now says something untrue, and would hide the next
problem that appears on this line.

## Example

```python
y = x + 1  # streamlint: ignore[SL101] the copy stream is idle here
```

Use instead:

```python
y = x + 1
```

## Limits

Only codes that the run reports are judged, and no comment of a file that could not be analyzed.
""",
)

INVALID_SUPPRESSION = CommentRule(
    "SL002",
    "invalid-suppression",
    "a suppression comment that cannot be understood, and has no effect",
    """\
## What it does

Reports a `# streamlint:` comment that names no code, an unknown code, an unknown directive, or
misses a bracket.

## Why is this bad?

The comment looks as if it suppressed something, but has no effect. A comment without codes would
hide problems that nobody has looked at yet, so the codes are required.

## Example

```python
y = x + 1  # streamlint: ignore
```

Use instead:

```python
y = x + 1  # streamlint: ignore[SL101] the copy stream is idle here
```
""",
)


@frozen()
class Listed:
    """A rule by its code and name; all else it is asked for loads the rules, and with them the analysis."""

    code: str
    name: str
    default: bool = True

    @property
    def rule(self) -> RuleInfo:
        from streamlint.rules import RULES

        return next(rule for rule in RULES if rule.code == self.code)

    @property
    def summary(self) -> str:
        return self.rule.summary

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    @property
    def doc(self) -> str:
        return self.rule.doc


LISTED = (
    Listed("SL101", "unordered-read"),
    Listed("SL102", "unordered-write"),
    Listed("SL103", "wait-before-record"),
    Listed("SL104", "launch-off-stream"),
    Listed("SL105", "wrong-device-synchronize"),
    Listed("SL106", "stream-of-other-device"),
    Listed("SL201", "host-read-before-sync"),
    Listed("SL202", "host-write-during-copy"),
    Listed("SL203", "host-access-to-device-memory"),
    Listed("SL204", "device-wait-used-as-host-sync"),
    Listed("SL301", "cuda-call-in-host-callback"),
    Listed("SL302", "blocking-host-callback"),
    Listed("SL303", "callback-not-kept-alive"),
    Listed("SL304", "deprecated-stream-add-callback"),
    Listed("SL401", "missing-record-stream"),
    Listed("SL402", "freed-while-in-use"),
    Listed("SL403", "used-before-allocated"),
    Listed("SL404", "used-after-destroy"),
    Listed("SL405", "record-stream-on-owner"),
    Listed("SL406", "used-after-last-reference"),
    Listed("SL501", "sync-in-capture"),
    Listed("SL502", "unjoined-capture"),
    Listed("SL503", "capture-waits-outside"),
    Listed("SL504", "graph-buffer-race"),
    Listed("SL505", "work-outside-capture"),
    Listed("SL506", "read-before-replay"),
    Listed("SL507", "swapped-in-capture"),
    Listed("SL508", "capture-meets-thread"),
    Listed("SL509", "result-overwritten-by-replay"),
    Listed("SL601", "handoff-without-stream"),
    Listed("SL602", "collective-before-wait"),
    Listed("SL701", "elapsed-before-sync"),
    Listed("SL901", "pageable-async-copy", default=False),
    Listed("SL902", "implicit-sync-in-loop", default=False),
    Listed("SL903", "allocation-serializes", default=False),
    Listed("SL904", "default-stream-serializes", default=False),
    Listed("SL905", "redundant-sync", default=False),
)
"""What a run has to know of the rules before it analyzes anything."""


def catalog() -> tuple[RuleInfo, ...]:
    """Every rule, in the order of the codes."""
    known: tuple[RuleInfo, ...] = (UNUSED_SUPPRESSION, INVALID_SUPPRESSION, *LISTED)
    return tuple(sorted(known, key=lambda rule: rule.code))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean `x`?`` for the nearest known word, or nothing."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{near[0]}`?" if near else ""


def nearest_rule(word: str, known: Iterable[str]) -> str:
    """Return the ``suggestion`` for what should have been a code or the name of a rule."""
    return suggestion(word.upper() if word.upper().startswith("SL") else word.lower(), known)


def sentence(phrase: str) -> str:
    """Return a rule's summary as a sentence of its own."""
    return f"{phrase[:1].upper()}{phrase[1:]}."


def find_rule(word: str, rules: Sequence[RuleInfo]) -> RuleInfo:
    """Look a rule up by its code or its name.

    Raises UserError when there is none.
    """
    for rule in rules:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule
    raise UserError(f"unknown rule `{word}`{nearest_rule(word, vocabulary(rules))}")


@frozen()
class Selection:
    """Which codes a run reports.

    ``select`` and ``ignore`` hold codes, prefixes of codes, or ``ALL``. Where both match, the longer
    prefix decides, and ``ignore`` on a tie: ``--ignore SL1 --select SL101`` reports SL101.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def active(self, rule: RuleInfo) -> bool:
        chosen = _best(rule.code, self.select) if self.select else (0 if rule.default else -1)
        return chosen > _best(rule.code, self.ignore)

    def ignores(self, code: str) -> bool:
        return _best(code, self.ignore) >= 0

    def codes(self, rules: Iterable[RuleInfo]) -> frozenset[str]:
        return frozenset(rule.code for rule in rules if self.active(rule))


def _best(code: str, selectors: Iterable[str]) -> int:
    """Length of the longest selector that matches the code; ``ALL`` counts 0, no match -1."""
    return max((_length(code, selector) for selector in selectors), default=-1)


def _length(code: str, selector: str) -> int:
    if selector == "ALL":
        return 0
    return len(selector) if code.startswith(selector) else -1


def vocabulary(rules: Iterable[RuleInfo]) -> dict[str, str]:
    """Return the code that each word means: a rule is called by its code or by its name."""
    return {word: rule.code for rule in rules for word in (rule.code, rule.name)}


def parse_selectors(words: Iterable[str], rules: Sequence[RuleInfo]) -> tuple[str, ...]:
    """Split comma separated selectors (codes, prefixes, names of rules), and return codes and prefixes.

    Raises UserError on one that means no rule.
    """
    known = vocabulary(rules)
    found: list[str] = []
    for word in words:
        parts = [part.strip() for part in word.split(",")]
        if not any(parts):
            raise UserError(f"empty list of rules: `{word}`")
        found += (_selector(part, known) for part in parts if part)
    return tuple(found)


def _selector(word: str, known: Mapping[str, str]) -> str:
    upper = word.upper()
    if upper == "ALL" or any(code.startswith(upper) for code in known.values()):
        return upper
    if word.lower() in known:
        return known[word.lower()]
    raise UserError(f"unknown rule or prefix `{word}`{nearest_rule(word, known)}")
