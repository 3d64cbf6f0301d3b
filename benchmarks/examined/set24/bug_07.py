import threading
from queue import Queue

import torch


class StagingPool:
    """One lazily grown device staging buffer per transfer direction."""

    def __init__(self, device):
        self.device = device
        self.buffer = None

    def ensure_buffer(self, nbytes):
        if self.buffer is None or self.buffer.numel() < nbytes:
            self.buffer = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        return self.buffer[:nbytes]

    def release(self):
        self.buffer = None


class StateOffloader:
    """Packs recurrent-state rows of finished requests and moves them to the CPU tier."""

    def __init__(self, state, device):
        self.state = state
        self.device = device
        self.staging = StagingPool(device)
        self.pack_stream = torch.cuda.Stream(device)
        self.cpu_tier = {}
        self.done_q = Queue()
        self.writer = threading.Thread(target=self._writer, daemon=True)
        self.writer.start()

    def offload(self, prefix_hash, rows, state_ready):
        row_bytes = self.state[0].numel() * self.state.element_size()
        packed = self.staging.ensure_buffer(rows.numel() * row_bytes)
        image = torch.empty(packed.numel(), dtype=torch.uint8, pin_memory=True)
        view = packed.view(self.state.dtype).view(rows.numel(), *self.state.shape[1:])
        rows.record_stream(self.pack_stream)
        self.pack_stream.wait_event(state_ready)
        with torch.cuda.stream(self.pack_stream):
            torch.index_select(self.state, 0, rows, out=view)
            image.copy_(packed, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.pack_stream)
        packed.record_stream(self.pack_stream)
        torch.cuda.current_stream(self.device).wait_event(done)
        self.done_q.put((prefix_hash, image, done))

    def _writer(self):
        while True:
            item = self.done_q.get()
            if item is None:
                return
            prefix_hash, image, done = item
            done.synchronize()
            self.cpu_tier[prefix_hash] = image

    def close(self):
        self.done_q.put(None)
        self.writer.join()


class Runner:
    def __init__(self, model, state, device):
        self.model = model
        self.state = state
        self.device = device
        self.offloader = StateOffloader(state, device)

    def _logits(self, hidden):
        scratch = torch.relu(hidden @ self.model.wide)
        return scratch @ self.model.head

    @torch.inference_mode()
    def run(self, batches):
        state_ready = torch.cuda.Event()
        for tokens, rows, finished in batches:
            hidden = self.model.embed(tokens)
            for layer in self.model.layers:
                hidden = hidden + layer(hidden)
            self.state[rows] = hidden
            state_ready.record()
            logits = self._logits(hidden)
            for prefix_hash, idx in finished:
                self.offloader.offload(prefix_hash, idx, state_ready)
                self.offloader.staging.release()
            yield logits.argmax(-1)
        self.offloader.close()
