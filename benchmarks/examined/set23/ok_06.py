"""Two-chunk expert-parallel overlap over static receive buffers."""
import torch
import torch.distributed as dist


class BufferSet:
    def __init__(self, capacity, dim):
        self.send = torch.empty(capacity, dim, device="cuda", dtype=torch.bfloat16)
        self.recv = torch.empty(capacity, dim, device="cuda", dtype=torch.bfloat16)
        self.back = torch.empty(capacity, dim, device="cuda", dtype=torch.bfloat16)
        self.sent = torch.cuda.Event()
        self.arrived = torch.cuda.Event()
        self.experts_done = torch.cuda.Event()
        self.combined = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class AsyncExpertParallel:
    def __init__(self, capacity, dim, ffn, group, num_sets=2):
        self.group = group
        self.sets = [BufferSet(capacity, dim) for _ in range(num_sets)]
        self.w1 = torch.randn(dim, ffn, device="cuda", dtype=torch.bfloat16) / dim ** 0.5
        self.w2 = torch.randn(ffn, dim, device="cuda", dtype=torch.bfloat16) / ffn ** 0.5
        self.comm_stream = torch.cuda.Stream()

    def _dispatch(self, chunk, bufs):
        compute = torch.cuda.current_stream()
        compute.wait_event(bufs.arrived)
        bufs.send.copy_(chunk)
        bufs.sent.record()
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(bufs.sent)
            self.comm_stream.wait_event(bufs.experts_done)
            dist.all_to_all_single(bufs.recv, bufs.send, group=self.group)
            bufs.arrived.record()

    def _experts(self, bufs):
        compute = torch.cuda.current_stream()
        compute.wait_event(bufs.arrived)
        hidden = torch.nn.functional.silu(bufs.recv @ self.w1)
        compute.wait_event(bufs.combined)
        torch.matmul(hidden, self.w2, out=bufs.recv)
        bufs.experts_done.record()

    def _combine(self, bufs):
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(bufs.experts_done)
            self.comm_stream.wait_event(bufs.drained)
            dist.all_to_all_single(bufs.back, bufs.recv, group=self.group)
            bufs.combined.record()

    def _collect(self, out, bufs):
        torch.cuda.current_stream().wait_event(bufs.combined)
        out.copy_(bufs.back)
        bufs.drained.record()

    def forward(self, x):
        chunks = x.chunk(4)
        out = torch.empty_like(x)
        outs = out.chunk(4)
        for i, chunk in enumerate(chunks):
            bufs = self.sets[i % len(self.sets)]
            if i >= len(self.sets):
                self._collect(outs[i - len(self.sets)], bufs)
            self._dispatch(chunk, bufs)
            if i > 0:
                prev = self.sets[(i - 1) % len(self.sets)]
                self._experts(prev)
                self._combine(prev)
        last = self.sets[(len(chunks) - 1) % len(self.sets)]
        self._experts(last)
        self._combine(last)
        for i in range(len(chunks) - len(self.sets), len(chunks)):
            self._collect(outs[i], self.sets[i % len(self.sets)])
        return out


def main(steps=50, tokens=8192, dim=2048):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    ep = AsyncExpertParallel(tokens // 4, dim, 4096, dist.group.WORLD)
    for _ in range(steps):
        x = torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16)
        x = x + ep.forward(x)
        print(x.float().square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
