from typing import Dict, List, Optional, Tuple

import torch


class Window:
    def __init__(self, rows: int, width: int):
        self.data = torch.zeros((rows, width), device="cuda", dtype=torch.bfloat16)
        self.cursor = 0
        self.index: Dict[str, slice] = {}

    def reserve(self, key: str, rows: int) -> torch.Tensor:
        span = slice(self.cursor, self.cursor + rows)
        self.cursor += rows
        self.index[key] = span
        return self.data[span]


class Channel:
    def __init__(self, window: Window, stream: Optional[torch.cuda.Stream] = None):
        self.window = window
        self.stream = stream if stream is not None else torch.cuda.Stream()

    def push(self, key: str, chunk: torch.Tensor):
        dst = self.window.reserve(key, chunk.shape[0])
        with torch.cuda.stream(self.stream):
            dst.copy_(chunk, non_blocking=True)


class Connector:
    def __init__(self, pools: List[torch.Tensor], chunk: int):
        self.pools = pools
        self.stream = torch.cuda.Stream()
        self.scratch = torch.empty(
            (chunk, sum(p.shape[1] for p in pools)), device="cuda", dtype=pools[0].dtype
        )
        self.stream.wait_stream(torch.cuda.current_stream())

    def gather(self, slots: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            col = 0
            for pool in self.pools:
                width = pool.shape[1]
                self.scratch[: slots.numel(), col:col + width] = pool.index_select(0, slots)
                col += width
        return self.scratch[: slots.numel()]


class Adapter:
    def __init__(self, connector: Connector, channel: Channel):
        self.connector = connector
        self.channel = channel
        self.held: List[torch.Tensor] = []

    def store(self, requests: List[Tuple[str, torch.Tensor]]):
        self.connector.stream.wait_stream(torch.cuda.current_stream())
        for key, slots in requests:
            self.held.append(slots)
            self.channel.push(key, self.connector.gather(slots))

    def flush(self):
        torch.cuda.current_stream().wait_stream(self.connector.stream)
        self.held.clear()


def main():
    layers, width, chunk = 4, 512, 128
    pools = [
        torch.zeros((4096, width), device="cuda", dtype=torch.bfloat16) for _ in range(layers)
    ]
    window = Window(chunk * 6, layers * width)
    connector = Connector(pools, chunk)
    adapter = Adapter(connector, Channel(window, connector.stream))

    perm = torch.randperm(4096, device="cuda")
    for i, pool in enumerate(pools):
        pool.normal_(std=1.0 + i)
    requests = [(f"r{i}", perm[i * chunk:(i + 1) * chunk].clone()) for i in range(6)]
    adapter.store(requests)
    adapter.flush()
    for key, span in window.index.items():
        print(key, window.data[span].float().std().item())


if __name__ == "__main__":
    main()
