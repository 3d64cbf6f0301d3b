"""Hands hidden-state chunks of a running stage to the next stage through shared memory."""
import queue
import threading
from multiprocessing import shared_memory

import torch
from torch import nn


class SharedMemoryConnector:
    """``put`` returns at once; a writer thread copies the tensor out of the device."""

    def __init__(self, device):
        self.device = torch.device(device)
        self._pending = queue.Queue()
        self._segments = {}
        self._lock = threading.Lock()
        self._writer = threading.Thread(target=self._write_loop, daemon=True)
        self._writer.start()

    def put(self, key, tensor):
        self._pending.put((key, tensor))

    def get(self, key, shape, dtype):
        with self._lock:
            segment = self._segments.pop(key)
        out = torch.frombuffer(bytearray(segment.buf), dtype=dtype)
        out = out[: torch.Size(shape).numel()].view(shape)
        segment.close()
        segment.unlink()
        return out

    def flush(self):
        self._pending.join()

    def close(self):
        self._pending.put(None)
        self._writer.join()

    def _write_loop(self):
        torch.cuda.set_device(self.device)
        while True:
            entry = self._pending.get()
            if entry is None:
                self._pending.task_done()
                return
            key, tensor = entry
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(self.device))
            ready.synchronize()
            self._serialize(key, tensor)
            self._pending.task_done()

    def _serialize(self, key, tensor):
        data = tensor.contiguous().cpu().numpy()
        segment = shared_memory.SharedMemory(create=True, size=data.nbytes)
        segment.buf[: data.nbytes] = data.tobytes()
        with self._lock:
            self._segments[key] = segment


class ThinkerStage:
    def __init__(self, hidden=4096, layers=16, device="cuda:0"):
        self.device = torch.device(device)
        blocks = []
        for _ in range(layers):
            blocks += [nn.Linear(hidden, hidden), nn.GELU()]
        self.model = nn.Sequential(*blocks).to(self.device).eval()
        self.stream = torch.cuda.Stream(device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    @torch.inference_mode()
    def run_chunks(self, request_id, embeds, connector):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        keys = []
        with torch.cuda.stream(self.stream):
            embeds.record_stream(self.stream)
            for index, chunk in enumerate(embeds.split(128)):
                hidden = self.model(chunk)
                key = f"{request_id}/{index}"
                connector.put(key, hidden)
                keys.append((key, tuple(hidden.shape)))
        return keys


def serve(num_requests=4):
    connector = SharedMemoryConnector("cuda:0")
    stage = ThinkerStage()
    results = []
    for request in range(num_requests):
        embeds = torch.randn(1024, 4096, device="cuda:0")
        keys = stage.run_chunks(f"req-{request}", embeds, connector)
        connector.flush()
        results.append([connector.get(key, shape, torch.float32) for key, shape in keys])
    connector.close()
    return results


if __name__ == "__main__":
    print(len(serve()))
