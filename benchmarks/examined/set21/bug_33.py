"""Intra-node NVLink transport: registered segments and batched device copies."""
import dataclasses
from typing import Dict, List

import torch
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


@dataclasses.dataclass
class TransferRequest:
    source: int
    target: int
    length: int


class IntraNodeNvlinkTransport:
    """Copies between buffers of one node over a private stream."""

    def __init__(self, device):
        self.device = device
        check(cudart.cudaSetDevice(device))
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def submit_transfer(self, batch: List[TransferRequest]):
        for request in batch:
            check(cudart.cudaMemcpyAsync(request.target, request.source, request.length, D2D, self.stream))
        event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(event, self.stream))
        return event

    def wait(self, event):
        check(cudart.cudaEventSynchronize(event))
        check(cudart.cudaEventDestroy(event))


class TransferEngine:
    def __init__(self, device=0):
        self.transport = IntraNodeNvlinkTransport(device)
        self.segments: Dict[str, Dict[int, int]] = {}

    def register_memory(self, segment, address, length):
        self.segments.setdefault(segment, {})[address] = length

    def transfer_sync_write(self, segment, buffer, peer_buffer, length):
        """Write ``length`` bytes at ``buffer`` to ``peer_buffer`` of a segment."""
        if length > self.segments[segment].get(peer_buffer, 0):
            raise ValueError("peer buffer is not registered")
        request = TransferRequest(buffer, peer_buffer, length)
        self.transport.wait(self.transport.submit_transfer([request]))


class PrefillWorker:
    """Computes a layer's keys and values and pushes them to the decode side."""

    def __init__(self, engine, hidden, heads, head_dim, max_tokens):
        self.engine = engine
        self.wk = torch.randn(hidden, heads * head_dim, device="cuda", dtype=torch.float16)
        self.wv = torch.randn(hidden, heads * head_dim, device="cuda", dtype=torch.float16)
        self.staging = torch.empty(2, max_tokens, heads * head_dim, device="cuda", dtype=torch.float16)

    def push(self, x, segment, peer_buffer):
        tokens = x.shape[0]
        torch.matmul(x, self.wk, out=self.staging[0, :tokens])
        torch.matmul(x, self.wv, out=self.staging[1, :tokens])
        self.engine.transfer_sync_write(
            segment, self.staging.data_ptr(), peer_buffer,
            self.staging.numel() * self.staging.element_size())


def run(batches, hidden=4096, heads=8, head_dim=128, max_tokens=2048):
    engine = TransferEngine()
    worker = PrefillWorker(engine, hidden, heads, head_dim, max_tokens)
    pages = [torch.empty_like(worker.staging) for _ in batches]
    torch.cuda.synchronize()
    for x, page in zip(batches, pages):
        engine.register_memory("decode0", page.data_ptr(), page.numel() * page.element_size())
        worker.push(x.cuda(), "decode0", page.data_ptr())
    return [page.sum().item() for page in pages]
