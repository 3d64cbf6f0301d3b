"""Checkpoint writer: device tensors are streamed to disk through pinned chunks."""
import queue
import tempfile
import threading

import cupy as cp
import cupyx
import numpy as np

CHUNK = 8 << 20


class AsyncCopyManager:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def submit_d2h(self, dst, src_ptr, nbytes):
        cp.cuda.runtime.memcpyAsync(
            dst.ctypes.data, src_ptr, nbytes,
            cp.cuda.runtime.memcpyDeviceToHost, self.stream.ptr)


class StreamingTensorWriter:
    def __init__(self, path, buffers=4):
        self._file = open(path, "wb")
        self._copies = AsyncCopyManager()
        self._free = queue.Queue()
        self._ready = queue.Queue()
        for _ in range(buffers):
            self._free.put(cupyx.empty_pinned((CHUNK,), np.uint8))
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self):
        while True:
            item = self._ready.get()
            if item is None:
                return
            buf, size = item
            self._file.write(memoryview(buf[:size]))
            self._free.put(buf)

    def write_tensor(self, array):
        produced = cp.cuda.get_current_stream().record()
        self._copies.stream.wait_event(produced)
        processed = 0
        while processed < array.nbytes:
            size = min(CHUNK, array.nbytes - processed)
            buf = self._free.get()
            self._copies.submit_d2h(buf, array.data.ptr + processed, size)
            self._ready.put((buf, size))
            processed += size
        self._copies.stream.synchronize()

    def close(self):
        self._ready.put(None)
        self._thread.join()
        self._file.close()


def main():
    state = {f"layer.{i}.weight": cp.random.random((2048, 2048)) for i in range(4)}
    with tempfile.NamedTemporaryFile(suffix=".ckpt") as tmp:
        writer = StreamingTensorWriter(tmp.name)
        for _, tensor in state.items():
            writer.write_tensor(cp.ascontiguousarray(tensor))
        writer.close()
        print(np.fromfile(tmp.name, np.float64).sum())


if __name__ == "__main__":
    main()
