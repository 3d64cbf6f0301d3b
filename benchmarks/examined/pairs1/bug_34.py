"""Streaming endpoint: generated ids are handed to coroutines when their copy is done."""
import asyncio

import torch


class PendingIds:
    def __init__(self, device_ids, stream):
        self._keep = device_ids
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.ids = device_ids.to("cpu", non_blocking=True)
            self.event = stream.record_event()

    async def wait(self):
        while self.event.query():
            await asyncio.sleep(0.001)
        return self.ids.tolist()


class Generator:
    def __init__(self, dim=2048, vocab=50000, layers=12):
        self.layers = [torch.randn(dim, dim, device="cuda") / 45 for _ in range(layers)]
        self.head = torch.randn(dim, vocab, device="cuda")
        self.hidden = torch.randn(64, dim, device="cuda")
        self.out_stream = torch.cuda.Stream()

    @torch.inference_mode()
    def step(self):
        h = self.hidden
        for w in self.layers:
            h = torch.tanh(h @ w)
        self.hidden = h
        return PendingIds((h @ self.head).argmax(-1), self.out_stream)


async def stream_tokens(generator, steps, sink):
    for _ in range(steps):
        pending = generator.step()
        await asyncio.sleep(0)
        sink.append(await pending.wait())


async def main():
    generator = Generator()
    sink = []
    await stream_tokens(generator, 50, sink)
    torch.cuda.synchronize()
    return sink


if __name__ == "__main__":
    print(len(asyncio.run(main())))
