"""KV connector with two kinds of layers: full attention blocks and sliding window blocks."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class DumpTask:
    key: str
    block_ids: list
    host: torch.Tensor
    event: torch.cuda.Event


@dataclass
class RequestState:
    full_blocks: list = field(default_factory=list)
    window_blocks: deque = field(default_factory=deque)
    finished: bool = False


class BlockPool:
    def __init__(self, n_blocks):
        self.free = list(range(n_blocks))

    def take(self):
        return self.free.pop()

    def give(self, ids):
        self.free.extend(ids)


class Connector:
    def __init__(self, n_blocks=2048, wa_blocks=256, block_tokens=16, width=1024, window=4, device="cuda:0"):
        self.device = torch.device(device)
        self.window = window
        self.full = torch.zeros((n_blocks, block_tokens, width), device=self.device, dtype=torch.half)
        self.wa = torch.zeros((wa_blocks, block_tokens, width), device=self.device, dtype=torch.half)
        self.full_pool, self.wa_pool = BlockPool(n_blocks), BlockPool(wa_blocks)
        self.dump_stream = torch.cuda.Stream(self.device)
        self.requests = {}
        self.pending = {}
        self.store = {}

    def _dump(self, key, cache, block_ids):
        self.dump_stream.wait_stream(torch.cuda.current_stream(self.device))
        host = torch.empty((len(block_ids), *cache.shape[1:]), dtype=cache.dtype, pin_memory=True)
        event = torch.cuda.Event()
        with torch.cuda.stream(self.dump_stream):
            for n, block in enumerate(block_ids):
                host[n].copy_(cache[block], non_blocking=True)
            event.record()
        return DumpTask(key, list(block_ids), host, event)

    def append_tokens(self, req_id, hidden):
        state = self.requests.setdefault(req_id, RequestState())
        fb, wb = self.full_pool.take(), self.wa_pool.take()
        self.full[fb].copy_(hidden)
        self.wa[wb].copy_(torch.tanh(hidden))
        state.full_blocks.append(fb)
        state.window_blocks.append(wb)
        return state

    def wait_for_save(self, req_id, step):
        state = self.requests[req_id]
        tasks = self.pending.setdefault(req_id, [])
        tasks.append(self._dump(f"{req_id}/full/{step}", self.full, state.full_blocks[-1:]))
        tasks.append(self._dump(f"{req_id}/wa/{step}", self.wa, list(state.window_blocks)[-1:]))
        expired = []
        while len(state.window_blocks) >= self.window:
            expired.append(state.window_blocks.popleft())
        self.wa_pool.give(expired)

    def finish(self, req_id):
        self.requests[req_id].finished = True

    def get_finished(self):
        done = []
        for req_id, tasks in list(self.pending.items()):
            if not self.requests[req_id].finished or not all(t.event.query() for t in tasks):
                continue
            for t in tasks:
                self.store[t.key] = t.host
            state = self.requests.pop(req_id)
            self.full_pool.give(state.full_blocks)
            self.wa_pool.give(state.window_blocks)
            del self.pending[req_id]
            done.append(req_id)
        return done


def serve(chunks_by_request, window=1):
    conn = Connector(window=window)
    for req_id, chunks in chunks_by_request.items():
        for step, chunk in enumerate(chunks):
            conn.append_tokens(req_id, chunk.to(conn.device))
            conn.wait_for_save(req_id, step)
        conn.finish(req_id)
        conn.get_finished()
    torch.cuda.synchronize()
    conn.get_finished()
    return conn.store
