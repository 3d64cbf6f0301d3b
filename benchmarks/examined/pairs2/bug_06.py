"""Reference policy whose layers are gathered just in time."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Slot:
    def __init__(self, numel, device):
        self.buffer = torch.empty(numel, dtype=torch.bfloat16, device=device)
        self.ready = torch.cuda.Event()
        self.released = torch.cuda.Event()


class GatheredReference:
    def __init__(self, depth, width, device):
        self.width = width
        part = width * width // dist.get_world_size()
        self.parts = [torch.randn(part, device=device).to(torch.bfloat16) for _ in range(depth)]
        self.slots = [Slot(width * width, device) for _ in range(2)]
        self.unshard_stream = torch.cuda.Stream(device)
        self.unshard_stream.wait_stream(torch.cuda.current_stream())

    def prefetch(self, index):
        slot = self.slots[index % 2]
        torch.cuda.current_stream().wait_event(slot.released)
        with torch.cuda.stream(self.unshard_stream):
            dist.all_gather_into_tensor(slot.buffer, self.parts[index])
            slot.ready.record()

    def layer(self, index, hidden):
        slot = self.slots[index % 2]
        slot.ready.wait()
        hidden = F.silu(hidden @ slot.buffer.view(self.width, self.width))
        slot.released.record()
        return hidden

    @torch.no_grad()
    def logprobs(self, hidden):
        self.prefetch(0)
        for index in range(len(self.parts)):
            if index + 1 < len(self.parts):
                self.prefetch(index + 1)
            hidden = self.layer(index, hidden)
        return hidden.float().log_softmax(-1)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    reference = GatheredReference(depth=24, width=2048, device=device)
    for step in range(64):
        hidden = torch.randn(512, 2048, device=device).to(torch.bfloat16)
        logp = reference.logprobs(hidden)
        if step % 16 == 0:
            print(step, logp.mean().item())


main()
