import asyncio

import torch
from torch import nn


class AsyncModel:
    """Serves coroutines; each request owns a stream and pinned result."""

    def __init__(self, net, limit=4):
        self.net = net
        self.gate = asyncio.Semaphore(limit)
        self.idle = [torch.cuda.Stream() for _ in range(limit)]

    async def infer(self, array):
        loop = asyncio.get_running_loop()
        async with self.gate:
            stream = self.idle.pop()
            try:
                host_in = array.pin_memory()
                with torch.cuda.stream(stream), torch.inference_mode():
                    x = host_in.to("cuda", non_blocking=True)
                    y = self.net(x).softmax(-1)
                    host_out = torch.empty(y.shape, pin_memory=True)
                    host_out.copy_(y, non_blocking=True)
                    done = stream.record_event()
                await loop.run_in_executor(None, done.synchronize)
                return host_out.argmax(-1).tolist()
            finally:
                self.idle.append(stream)


async def client(model, ident, rounds):
    gen = torch.Generator().manual_seed(ident)
    votes = []
    for _ in range(rounds):
        votes.extend(await model.infer(torch.randn(16, 256, generator=gen)))
        await asyncio.sleep(0)
    return ident, votes


async def serve():
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda().eval()
    torch.cuda.synchronize()
    model = AsyncModel(net)
    results = await asyncio.gather(*(client(model, i, 20) for i in range(12)))
    for ident, votes in results:
        print(ident, max(set(votes), key=votes.count))


if __name__ == "__main__":
    asyncio.run(serve())
