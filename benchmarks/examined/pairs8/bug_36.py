import os

import torch
import torch.distributed as dist


class KVSender:
    """Ships the KV of a finished prefill to the decode rank, layer by layer."""

    def __init__(self, slots, dim, dst):
        self.staging = torch.empty(2, slots, dim, dtype=torch.bfloat16, device="cuda")
        self.dst = dst
        self.pending = []

    def send_layer(self, k_cache, v_cache, rows):
        torch.index_select(k_cache, 0, rows, out=self.staging[0])
        torch.index_select(v_cache, 0, rows, out=self.staging[1])
        self.pending.append(dist.isend(self.staging, self.dst))

    def finish(self):
        for work in self.pending:
            work.wait()
        self.pending.clear()


class KVReceiver:
    def __init__(self, slots, dim, src):
        self.slots, self.dim, self.src = slots, dim, src

    def receive(self, layers):
        for _ in range(layers):
            buf = torch.empty(2, self.slots, self.dim, dtype=torch.bfloat16, device="cuda")
            dist.irecv(buf, self.src).wait()
            yield buf


def main(layers=32, slots=512, dim=1024):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if dist.get_rank() == 0:
        caches = [
            tuple(torch.randn(8192, dim, dtype=torch.bfloat16, device="cuda") for _ in range(2))
            for _ in range(layers)
        ]
        rows = torch.randperm(8192, device="cuda")[:slots]
        sender = KVSender(slots, dim, dst=1)
        for k, v in caches:
            sender.send_layer(k, v, rows)
        sender.finish()
    else:
        sums = [kv.float().sum() for kv in KVReceiver(slots, dim, src=0).receive(layers)]
        print(torch.stack(sums).tolist())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
