"""X-engine: receive chunks, reorder them on the GPU, and hand visibilities on."""
import asyncio

import cupy as cp
import cupyx
import numpy as np

_reorder = cp.RawKernel(
    r"""
extern "C" __global__ void precorr_reorder(const char2* in, char2* out, int ants, int chans, int times) {
    long i = blockIdx.x * (long) blockDim.x + threadIdx.x;
    if (i >= (long) ants * chans * times) return;
    int t = i % times, c = (i / times) % chans, a = i / (times * (long) chans);
    out[((long) c * times + t) * ants + a] = in[i];
}
""",
    "precorr_reorder",
)


class QueueItem:
    """Timestamp, device buffer and the events that guard it."""

    def __init__(self, shape):
        self.timestamp = 0
        self.buffer_device = cp.empty(shape, dtype=cp.int16)
        self.events = []

    def reset(self, timestamp):
        self.timestamp = timestamp
        self.events.clear()

    def add_event(self, event):
        self.events.append(event)

    def enqueue_wait_for_events(self, stream):
        for event in self.events:
            stream.wait_event(event)


class XBEngine:
    def __init__(self, ants, chans, times, n_items=4):
        self.dims = (ants, chans, times)
        self._upload_stream = cp.cuda.Stream(non_blocking=True)
        self._proc_stream = cp.cuda.Stream(non_blocking=True)
        self._rx_item_queue = asyncio.Queue()
        self._rx_free_item_queue = asyncio.Queue()
        self._tx_item_queue = asyncio.Queue()
        self._tx_free_item_queue = asyncio.Queue()
        for _ in range(n_items):
            self._rx_free_item_queue.put_nowait(QueueItem(self.dims))
        for _ in range(2):
            self._tx_free_item_queue.put_nowait(QueueItem((chans, times, ants)))
        self._chunk = cupyx.empty_pinned(self.dims, dtype=np.int16)

    async def _receiver_loop(self, chunks):
        async for timestamp, data in chunks:
            item = await self._rx_free_item_queue.get()
            item.enqueue_wait_for_events(self._upload_stream)
            item.reset(timestamp)
            np.copyto(self._chunk, data)
            item.buffer_device.set(self._chunk, stream=self._upload_stream)
            copied = self._upload_stream.record()
            item.add_event(copied)
            await self._rx_item_queue.put(item)
            copied.synchronize()
        await self._rx_item_queue.put(None)

    async def _gpu_proc_loop(self):
        ants, chans, times = self.dims
        n = ants * chans * times
        while (rx_item := await self._rx_item_queue.get()) is not None:
            tx_item = await self._tx_free_item_queue.get()
            tx_item.enqueue_wait_for_events(self._proc_stream)
            tx_item.reset(rx_item.timestamp)
            rx_item.enqueue_wait_for_events(self._proc_stream)
            with self._proc_stream:
                _reorder(((n + 255) // 256,), (256,),
                         (rx_item.buffer_device, tx_item.buffer_device, ants, chans, times))
            tx_item.add_event(self._proc_stream.record())
            rx_item.reset(0)
            await self._rx_free_item_queue.put(rx_item)
            await self._tx_item_queue.put(tx_item)
        await self._tx_item_queue.put(None)

    async def _sender_loop(self, send):
        download = cp.cuda.Stream(non_blocking=True)
        while (item := await self._tx_item_queue.get()) is not None:
            item.enqueue_wait_for_events(download)
            host = item.buffer_device.get(stream=download)
            send(item.timestamp, host)
            await self._tx_free_item_queue.put(item)

    async def run(self, chunks, send):
        await asyncio.gather(self._receiver_loop(chunks), self._gpu_proc_loop(), self._sender_loop(send))
