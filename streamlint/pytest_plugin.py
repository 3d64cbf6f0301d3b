"""``pytest --streamlint``: each test is observed, and what its GPU work leaves unordered fails it.

Without the option nothing of streamlint is imported. With ``pytest-xdist`` each worker observes its tests.

    @pytest.mark.streamlint(known="SL101")     # findings with this code do not fail the test
    @pytest.mark.streamlint(observe=False)     # nothing of it is judged

    def test_the_race_is_seen(streamlint_findings):
        race()
        assert [finding.code for finding in streamlint_findings()] == ["SL101"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from streamlint.confirm.observe.observer import Observer
    from streamlint.finding import Finding
    from streamlint.output import Outcome
    from streamlint.run.check import Request

_NAME = "streamlint-observing"
_MARK = (
    "streamlint(known=..., observe=True): codes of findings that do not fail the test (a text, or several); "
    "whether its GPU work is judged at all. For `--streamlint`."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("streamlint", "missing stream order on the GPU")
    group.addoption(
        "--streamlint", action="store_true", help="observe what tests queue on a GPU; a race fails its test"
    )
    group.addoption(
        "--streamlint-select",
        action="append",
        default=[],
        metavar="CODES",
        help="only these codes or prefixes",
    )
    group.addoption(
        "--streamlint-ignore",
        action="append",
        default=[],
        metavar="CODES",
        help="not these codes or prefixes",
    )
    group.addoption(
        "--streamlint-min-confidence",
        choices=("certain", "likely", "possible"),
        help="findings less sure than this do not fail a test (default: likely)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest: libraries are traced from their import on."""
    options = early_config.known_args_namespace
    if not options.streamlint:
        return
    from streamlint import api
    from streamlint.confirm.observe.observer import Observer
    from streamlint.errors import UserError
    from streamlint.finding import Confidence

    least = options.streamlint_min_confidence
    try:
        request = api.request(
            (early_config.rootpath,),
            select=options.streamlint_select,
            ignore=options.streamlint_ignore,
            min_confidence=Confidence(least) if least else None,
            jobs=1,
        )
    except UserError as error:
        raise pytest.UsageError(f"--streamlint: {error}") from error
    observer = Observer(request.root)
    observer.install()
    early_config.pluginmanager.register(_Observing(observer, request), _NAME)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


@pytest.fixture
def streamlint_findings(request: pytest.FixtureRequest) -> Callable[[], tuple[Finding, ...]]:
    """Gives the findings of the test so far, which then do not fail it any more."""
    observing = request.config.pluginmanager.get_plugin(_NAME)
    if not isinstance(observing, _Observing):
        pytest.skip("needs pytest --streamlint")
    return observing.so_far


class _Observing:
    """Judges each test by itself: what its fixtures and the test have queued, until the test returns."""

    def __init__(self, observer: Observer, request: Request) -> None:
        self._observer = observer
        self._request = request

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        # What earlier tests have queued is taken to be complete.
        self._observer.forget()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            result = yield
        except BaseException:
            if found := self._text(item):
                item.add_report_section("call", "streamlint", found)
            raise
        if found := self._text(item):
            pytest.fail(found, pytrace=False)
        return result

    def so_far(self) -> tuple[Finding, ...]:
        found = self._outcome().findings
        self._observer.forget()
        return found

    def _outcome(self) -> Outcome:
        from streamlint.confirm.observe.outcome import outcome_of

        return outcome_of(self._request, self._observer.take(), 0.0, predict=False)

    def _text(self, item: pytest.Item) -> str:
        """The findings that the test is not known for."""
        from streamlint.frozen import replace
        from streamlint.output import text
        from streamlint.output.style import Style

        mark = item.get_closest_marker("streamlint")
        given: dict[str, Any] = {} if mark is None else dict(mark.kwargs)
        known = given.get("known", ())
        codes = {known} if isinstance(known, str) else set(known)
        if not given.get("observe", True):
            return ""
        outcome = self._outcome()
        new = tuple(finding for finding in outcome.findings if finding.code not in codes)
        return text.full(replace(outcome, findings=new), Style(False)).rstrip()
