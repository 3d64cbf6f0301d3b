"""Prefill side of a disaggregated engine: hands KV blocks to a decode engine."""
import queue
import threading
import time

import torch
from nixl._api import nixl_agent


class KVHandoff:
    def __init__(self, request_id, block_ids, ready):
        self.request_id = request_id
        self.block_ids = block_ids
        self.ready = ready


class HandoffSender:
    def __init__(self, name, kv_cache, remote_name, remote_descs):
        self.agent = nixl_agent(name)
        self.kv_cache = kv_cache
        self.agent.register_memory([kv_cache])
        self.remote_name = remote_name
        self.remote_descs = remote_descs
        self.work = queue.Queue()
        self.released = queue.Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def submit(self, handoff):
        self.work.put(handoff)

    def _loop(self):
        torch.cuda.set_device(self.kv_cache.device)
        while True:
            item = self.work.get()
            if item is None:
                break
            item.ready.synchronize()
            views = [self.kv_cache[b] for b in item.block_ids]
            local = self.agent.get_xfer_descs(views)
            remote = self.remote_descs[item.request_id]
            handle = self.agent.initialize_xfer(
                "WRITE", local, remote, self.remote_name, str(item.request_id).encode()
            )
            self.agent.transfer(handle)
            while self.agent.check_xfer_state(handle) == "PROC":
                time.sleep(1e-4)
            self.agent.release_xfer_handle(handle)
            self.released.put(item.block_ids)

    def close(self):
        self.work.put(None)
        self.thread.join()


class PrefillEngine:
    def __init__(self, num_blocks, block_tokens, dim, sender_args):
        self.kv_cache = torch.zeros(num_blocks, block_tokens, dim, device="cuda", dtype=torch.half)
        self.weight = torch.randn(dim, dim, device="cuda", dtype=torch.half) / dim ** 0.5
        self.block_tokens = block_tokens
        self.free_blocks = list(range(num_blocks))
        self.sender = HandoffSender("prefill", self.kv_cache, *sender_args)
        self.forward_stream = torch.cuda.Stream()
        self.forward_stream.wait_stream(torch.cuda.current_stream())

    def _take_blocks(self, count):
        while len(self.free_blocks) < count:
            self.free_blocks.extend(self.sender.released.get())
        return [self.free_blocks.pop() for _ in range(count)]

    def prefill(self, request_id, prompt_embeds):
        count = prompt_embeds.shape[0] // self.block_tokens
        blocks = self._take_blocks(count)
        with torch.cuda.stream(self.forward_stream):
            embeds = prompt_embeds.to("cuda", non_blocking=True)
            kv = torch.tanh(embeds @ self.weight).view(count, self.block_tokens, -1)
            for i, block in enumerate(blocks):
                self.kv_cache[block].copy_(kv[i])
            ready = torch.cuda.Event()
            ready.record()
        self.sender.submit(KVHandoff(request_id, blocks, ready))


def run(prompts, remote_name, remote_descs):
    engine = PrefillEngine(512, 64, 1024, (remote_name, remote_descs))
    for request_id, prompt in enumerate(prompts):
        engine.prefill(request_id, prompt.pin_memory())
    engine.sender.close()
