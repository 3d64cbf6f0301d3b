"""A process group whose ranks are threads of one process; rank 0 moves the data."""
import threading
from typing import Callable, List, Optional

import torch


class AllReduce:
    def work(self, data: List[torch.Tensor]) -> None:
        total = torch.stack(data).sum(dim=0)
        for tensor in data:
            tensor.copy_(total)


class AllGather:
    def work(self, data: List[tuple]) -> None:
        for dst_rank in range(len(data)):
            output, _ = data[dst_rank]
            for src_rank, chunk in enumerate(output.chunk(len(data))):
                chunk.copy_(data[src_rank][1])


class Collective:
    def __init__(self, world_size: int, op):
        self._world_size = world_size
        self._op = op
        self._start_cond = threading.Condition()
        self._done_cond = threading.Condition()
        self._data: list = [None] * world_size
        self._inputs_ready: List[Optional[torch.cuda.Event]] = [None] * world_size
        self._outputs_ready: Optional[torch.cuda.Event] = None
        self._count = 0
        self._done = False

    def join(self, rank: int, data) -> None:
        with self._start_cond:
            self._data[rank] = data
            self._inputs_ready[rank] = torch.cuda.current_stream().record_event()
            self._count += 1
            if rank > 0:
                if self._count == self._world_size:
                    self._start_cond.notify()
            else:
                self._start_cond.wait_for(lambda: self._count == self._world_size)
        if rank == 0:
            for event in self._inputs_ready:
                torch.cuda.current_stream().wait_event(event)
            self._op.work(self._data)
            self._outputs_ready = torch.cuda.current_stream().record_event()
            with self._done_cond:
                self._done = True
                self._done_cond.notify_all()
        else:
            with self._done_cond:
                self._done_cond.wait_for(lambda: self._done)
            torch.cuda.current_stream().wait_event(self._outputs_ready)


class ThreadedProcessGroup:
    _lock = threading.Lock()
    _cur_coll: Optional[Collective] = None
    _entered = 0

    def __init__(self, rank: int, world_size: int):
        self.rank = rank
        self.world_size = world_size

    def _start_coll(self, op) -> Collective:
        cls = ThreadedProcessGroup
        with cls._lock:
            if cls._cur_coll is None or cls._entered == self.world_size:
                cls._cur_coll = Collective(self.world_size, op)
                cls._entered = 0
            cls._entered += 1
            return cls._cur_coll

    def allreduce(self, tensor: torch.Tensor) -> None:
        self._start_coll(AllReduce()).join(self.rank, tensor)

    def all_gather_into_tensor(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        self._start_coll(AllGather()).join(self.rank, (output, tensor))


class ShardedRank:
    """One data-parallel rank with its own communication stream."""

    def __init__(self, pg: ThreadedProcessGroup, shard: torch.Tensor):
        self.pg = pg
        self.shard = shard
        self.all_gather_stream = torch.cuda.Stream()
        self.copy_in = torch.empty_like(shard)
        self.unsharded = torch.empty(pg.world_size * shard.numel(), dtype=shard.dtype, device=shard.device)

    def unshard(self) -> torch.Tensor:
        compute = torch.cuda.current_stream()
        self.all_gather_stream.wait_stream(compute)
        with torch.cuda.stream(self.all_gather_stream):
            self.copy_in.copy_(self.shard)
            self.pg.all_gather_into_tensor(self.unsharded, self.copy_in)
        compute.wait_stream(self.all_gather_stream)
        return self.unsharded


def run_ranks(world_size: int, shards: List[torch.Tensor], step: Callable[[ShardedRank], None]) -> None:
    def main(rank: int) -> None:
        step(ShardedRank(ThreadedProcessGroup(rank, world_size), shards[rank]))
        torch.cuda.synchronize()

    threads = [threading.Thread(target=main, args=(r,)) for r in range(world_size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
