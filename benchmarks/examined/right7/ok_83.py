"""Event-loop futures resolved from a watcher thread."""
import asyncio
import queue
import threading

import torch
from torch import nn


class Watcher(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(daemon=True)
        self.loop = loop
        self.items: queue.SimpleQueue = queue.SimpleQueue()

    def run(self):
        while (item := self.items.get()) is not None:
            event, fut = item
            event.synchronize()
            self.loop.call_soon_threadsafe(fut.set_result, None)


class Ranker:
    def __init__(self, loop):
        self.net = nn.Linear(32, 1).cuda().eval()
        self.watcher = Watcher(loop)
        self.watcher.start()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.free: asyncio.Queue = asyncio.Queue()
        for _ in range(4):
            self.free.put_nowait((torch.empty(64, 32, pin_memory=True), torch.empty(64, 1, pin_memory=True)))

    @torch.inference_mode()
    def _launch(self, src, dst):
        with torch.cuda.stream(self.stream):
            dst.copy_(self.net(src.to("cuda", non_blocking=True)), non_blocking=True)
            return self.stream.record_event()

    async def rank(self, seed: int) -> int:
        src, dst = await self.free.get()
        src.fill_(0.01 * seed)
        fut = asyncio.get_running_loop().create_future()
        self.watcher.items.put((self._launch(src, dst), fut))
        await fut
        best = int(dst.squeeze(1).argmax())
        self.free.put_nowait((src, dst))
        return best


async def main():
    ranker = Ranker(asyncio.get_running_loop())
    print(sum(await asyncio.gather(*(ranker.rank(i) for i in range(40)))))
    ranker.watcher.items.put(None)
    ranker.watcher.join()


if __name__ == "__main__":
    asyncio.run(main())
