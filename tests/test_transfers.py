"""Libraries that move memory by themselves and heed no stream: UCX, Mooncake, DeepNVMe, ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import check_source
from streamlint.finding import Confidence

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _in_a_tree_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is checked as one of the current folder's: the repository has a thousand others."""
    monkeypatch.chdir(tmp_path)


SENT = """\
import cupy as cp
import {module}


class Comm:
    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        packed = cp.concatenate([cp.asarray(frame) for frame in frames])
        {before}
        await self.ep.send(packed)
        {after}
        return packed.nbytes


async def received(ep, n):
    page = cp.empty(n)
    {before}
    await ep.recv(page)
    return page.sum()
"""
PAGES = """\
import torch
{imports}


class Channel:
    def __init__(self, engine, peer):
        self.engine = engine
        self.peer = peer

    def fetch(self, pages, sources, sizes):
        if self.engine.batch_transfer_sync_read(self.peer, pages, sources, sizes) != 0:
            raise RuntimeError("the transfer failed")


def gathered(engine, peer, batches, n):
    side = torch.cuda.Stream()
    channel = Channel(engine, peer)
    pages = [torch.empty(n, dtype=torch.uint8, device="cuda") for _ in range(2)]
    total = torch.zeros(n, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    for number, batch in enumerate(batches):
        page = pages[number % 2]
        {before}
        channel.fetch([page.data_ptr() + one.start for one in batch], [one.address for one in batch], [n])
        with torch.cuda.stream(side):
            total += page
    side.synchronize()
    return total
"""
SUBMITTED = """\
import torch
from mooncake.engine import TransferEngine


def pushed(engine: TransferEngine, peer, address, n):
    page = torch.full((n,), 7.0, device="cuda")
    torch.cuda.synchronize()
    number = engine.batch_transfer_async_write(peer, [page.data_ptr()], [address], [4 * n])
    {between}
    page.zero_()
    return page, number
"""
SWAPPED = """\
import torch
from deepspeed.ops.op_builder import AsyncIOBuilder


class Swapper:
    def __init__(self, n):
        self.files = AsyncIOBuilder().load().aio_handle(1 << 20, 8, False, True, 1)
        self.page = torch.empty(n, pin_memory=True)
        self.side = torch.cuda.Stream()

    def swap_out(self, path):
        state = torch.ones_like(self.page, device="cuda")
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.page.copy_(state, non_blocking=True)
        {before}
        self.files.async_pwrite(self.page, path)
        self.files.wait()
        self.side.synchronize()

    def swap_in(self, path, state):
        self.files.async_pread(self.page, path)
        {between}
        with torch.cuda.stream(self.side):
            on_device = self.page.to("cuda", non_blocking=True)
        self.files.wait()
        self.side.synchronize()
        return on_device
"""
BOUND = """\
import numpy as np
import onnxruntime as ort
import torch


class Session:
    def __init__(self, path, n):
        self.n = n
        self.side = torch.cuda.Stream()
        self.session = ort.InferenceSession(path, providers=[{provider}])
        self.x = torch.zeros(n, device="cuda")
        self.y = torch.zeros(n, device="cuda")
        self.binding = self.session.io_binding()
        self.binding.bind_input("x", "cuda", 0, np.float32, (n,), self.x.data_ptr())
        self.binding.bind_output("y", "cuda", 0, np.float32, (n,), self.y.data_ptr())
        torch.cuda.synchronize()

    def run(self, value):
        with torch.cuda.stream(self.side):
            self.x.fill_(value)
        {before}
        self.session.run_with_iobinding(self.binding)
        return self.y.cpu()
"""
GIVEN = """\
import numpy as np
import onnxruntime
import torch


def run(session, n):
    rows = torch.arange(n, device="cuda") * 2.0
    binding = session.io_binding()
    binding.bind_input(
        name="rows", device_type="cuda", device_id=0, element_type=np.float32, shape=(n,),
        buffer_ptr=rows.data_ptr(),
    )
    binding.bind_output("result")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()
"""
WAIT = "cp.cuda.get_current_stream().synchronize()"


def found(text: str) -> list[tuple[str, int]]:
    result = check_source(text)
    return [
        (one.code, one.primary.line) for one in result.findings if one.confidence is not Confidence.POSSIBLE
    ]


def sent(module: str, before: str, after: str = "pass") -> list[tuple[str, int]]:
    return found(SENT.format(module=module, before=before, after=after))


def test_a_message_is_sent_when_its_memory_is_written() -> None:
    for module in ("ucp", "ucxx"):
        assert ("SL101", 12) in sent(module, "pass")
        assert sent(module, WAIT) == []


def test_a_message_has_been_read_when_it_was_awaited() -> None:
    assert sent("ucxx", WAIT, "packed.fill(0)") == []


def test_send_tells_nothing_where_ucx_is_not_imported() -> None:
    assert sent("multiprocessing", "pass") == []


def test_a_page_is_overwritten_by_the_network_card_while_a_stream_reads_it() -> None:
    for imports in ("", "from mooncake.engine import TransferEngine"):
        assert found(PAGES.format(imports=imports, before="pass")) == [("SL102", 11)]
        assert found(PAGES.format(imports=imports, before="side.synchronize()")) == []


def test_what_was_submitted_is_read_until_it_is_asked_about() -> None:
    assert ("SL102", 10) in found(SUBMITTED.format(between="pass"))
    assert found(SUBMITTED.format(between="engine.get_batch_transfer_status([number])")) == []


def test_a_file_is_written_from_a_page_that_is_filled() -> None:
    open_ends = found(SWAPPED.format(before="pass", between="pass"))
    assert [code for code, _ in open_ends] == ["SL101", "SL101"]
    waits = {"before": "self.side.synchronize()", "between": "self.files.wait()"}
    assert found(SWAPPED.format(**waits)) == []


def test_a_session_reads_what_it_was_bound_to_on_a_stream_of_its_own() -> None:
    own, waits = '"CUDAExecutionProvider"', ("self.side.synchronize()", "self.binding.synchronize_inputs()")
    assert ("SL101", 22) in found(BOUND.format(provider=own, before="pass"))
    assert [found(BOUND.format(provider=own, before=wait)) for wait in waits] == [[], []]


def test_a_session_may_be_given_a_stream() -> None:
    given = '("CUDAExecutionProvider", {"user_compute_stream": str(self.side.cuda_stream)})'
    assert found(BOUND.format(provider=given, before="pass")) == []


def test_of_a_session_that_was_made_elsewhere_it_is_not_known() -> None:
    assert found(GIVEN) == []
    assert [one.code for one in check_source(GIVEN, min_confidence="possible").findings] == ["SL101"]
