"""All-to-all and all-gather over peer-visible buffers in one process."""
from typing import List

import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else rest


class PeerGroup:
    """One publish buffer per device that the other devices pull from."""

    def __init__(self, world: int, numel: int):
        self.world = world
        self.numel = numel
        self.streams: List[torch.cuda.Stream] = []
        self.publish: List[torch.Tensor] = []
        self.landing: List[torch.Tensor] = []
        self.ready: List[torch.cuda.Event] = []
        for r in range(world):
            with torch.cuda.device(r):
                self.streams.append(torch.cuda.Stream(r))
                self.publish.append(torch.zeros(world, numel, device=f"cuda:{r}"))
                self.landing.append(torch.zeros(world, numel, device=f"cuda:{r}"))
                self.ready.append(torch.cuda.Event())
                torch.cuda.synchronize(r)

    def _pull(self, dst: torch.Tensor, dst_dev: int, src: torch.Tensor, src_dev: int) -> None:
        check(
            cudart.cudaMemcpyPeerAsync(
                dst.data_ptr(),
                dst_dev,
                src.data_ptr(),
                src_dev,
                src.numel() * src.element_size(),
                self.streams[dst_dev].cuda_stream,
            )
        )

    def _publish(self, shards: List[torch.Tensor]) -> None:
        for r in range(self.world):
            with torch.cuda.device(r), torch.cuda.stream(self.streams[r]):
                self.publish[r].copy_(shards[r])
                self.ready[r].record(self.streams[r])
        for r in range(self.world):
            for peer in range(self.world):
                self.streams[r].wait_event(self.ready[peer])

    def all_to_all(self, shards: List[torch.Tensor]) -> List[torch.Tensor]:
        self._publish(shards)
        for r in range(self.world):
            with torch.cuda.device(r):
                for peer in range(self.world):
                    self._pull(self.landing[r][peer], r, self.publish[peer][r], peer)
        return self.landing

    def all_gather(self, shards: List[torch.Tensor]) -> List[torch.Tensor]:
        self._publish(shards)
        for r in range(self.world):
            with torch.cuda.device(r):
                for peer in range(self.world):
                    self._pull(self.landing[r][peer], r, self.publish[peer][0], peer)
        return self.landing


class ExpertLayer:
    def __init__(self, group: PeerGroup):
        self.group = group
        self.tokens = []
        for r in range(group.world):
            with torch.cuda.device(r), torch.cuda.stream(group.streams[r]):
                self.tokens.append(torch.randn(group.world, group.numel, device=f"cuda:{r}"))

    def step(self) -> None:
        dispatched = self.group.all_to_all(self.tokens)
        for r in range(self.group.world):
            with torch.cuda.device(r), torch.cuda.stream(self.group.streams[r]):
                torch.tanh(dispatched[r], out=self.tokens[r])
        gathered = self.group.all_gather(self.tokens)
        for r in range(self.group.world):
            with torch.cuda.device(r), torch.cuda.stream(self.group.streams[r]):
                self.tokens[r].add_(gathered[r], alpha=0.1)


def main(steps: int = 100) -> None:
    group = PeerGroup(torch.cuda.device_count(), 1 << 22)
    layer = ExpertLayer(group)
    for _ in range(steps):
        layer.step()
    for r in range(group.world):
        torch.cuda.synchronize(r)


if __name__ == "__main__":
    main()
