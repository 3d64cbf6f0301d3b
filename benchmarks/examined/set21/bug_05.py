import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


class PCIeDmaRing:
    """Ring reduce-scatter whose transfers run on the copy engine."""

    def __init__(self, numel_per_block: int, group: dist.ProcessGroup, dtype: torch.dtype = torch.float32):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.block = numel_per_block
        self.scratch = symm_mem.empty((self.world - 1) * numel_per_block, dtype=dtype, device=self.device)
        self.handle = symm_mem.rendezvous(self.scratch, group)
        self.nxt = (self.rank + 1) % self.world
        self.prv = (self.rank - 1) % self.world
        self.peer_scratch = self.handle.get_buffer(self.nxt, self.scratch.shape, dtype)
        self.partials = [torch.empty(numel_per_block, dtype=dtype, device=self.device) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream(self.device)
        self.add_done = [torch.cuda.Event() for _ in range(self.world)]
        self.input_ready = torch.cuda.Event()
        self.copies_done = torch.cuda.Event()

    def _window(self, buffer: torch.Tensor, step: int) -> torch.Tensor:
        return buffer[step * self.block:(step + 1) * self.block]

    def reduce_scatter(self, inp: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(self.device)
        blocks = inp.view(self.world, self.block)
        self.handle.barrier(channel=0)
        self.input_ready.record(main)
        self.copy_stream.wait_event(self.input_ready)
        for k in range(self.world - 1):
            send_block = (self.rank - k - 1) % self.world
            recv_block = (self.rank - k - 2) % self.world
            with torch.cuda.stream(self.copy_stream):
                if k == 0:
                    src = blocks[send_block]
                else:
                    self.copy_stream.wait_event(self.add_done[k - 1])
                    src = self.partials[(k - 1) % 2]
                self._window(self.peer_scratch, k).copy_(src, non_blocking=True)
                self.handle.put_signal(self.nxt, channel=k)
            self.handle.wait_signal(self.prv, channel=k)
            last = k == self.world - 2
            target = out if last else self.partials[k % 2]
            torch.add(self._window(self.scratch, k), blocks[recv_block], out=target)
            self.add_done[k].record(main)
        self.copies_done.record(self.copy_stream)
        main.wait_event(self.copies_done)
        return out


def main(hidden: int = 8192, tokens: int = 512, layers: int = 32) -> float:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    world = dist.get_world_size()
    numel = hidden * tokens // world
    ring = PCIeDmaRing(numel, dist.group.WORLD)
    out = torch.empty(numel, device="cuda")
    acc = torch.zeros(numel, device="cuda")
    for _ in range(layers):
        partial_sums = torch.randn(hidden * tokens, device="cuda")
        ring.reduce_scatter(partial_sums, out)
        acc += out
    return acc.abs().mean().item()
