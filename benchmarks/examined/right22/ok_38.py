import os

import torch
import torch.distributed as dist


class ChunkedAllToAll:
    def __init__(self, world, chunks):
        self.world = world
        self.chunks = chunks
        self.stream = torch.cuda.Stream()

    def start(self, x):
        parts = x.chunk(self.chunks, dim=1)
        flights = []
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for part in parts:
                part = part.contiguous()
                out = torch.empty_like(part)
                work = dist.all_to_all_single(out, part, async_op=True)
                flights.append((work, part, out))
        x.record_stream(self.stream)
        return flights

    def finish(self, flight):
        work, part, out = flight
        work.wait()
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        out.record_stream(here)
        return out


class Experts(torch.nn.Module):
    def __init__(self, width, exchange):
        super().__init__()
        self.fc = torch.nn.Linear(width, width)
        self.exchange = exchange

    @torch.no_grad()
    def forward(self, x):
        sent = self.exchange.start(x)
        back = []
        for flight in sent:
            y = torch.relu(self.fc(self.exchange.finish(flight)))
            back.append(self.exchange.start(y))
        outs = []
        for group in back:
            outs.append(torch.cat([self.exchange.finish(f) for f in group], dim=1))
        torch.cuda.current_stream().wait_stream(self.exchange.stream)
        return torch.cat(outs, dim=1)


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    dist.init_process_group("nccl")
    world = dist.get_world_size()
    moe = Experts(128, ChunkedAllToAll(world, 4)).cuda()
    for step in range(6):
        x = torch.randn(world, 64, 128, device="cuda")
        y = moe(x)
        print(rank, step, y.mean().item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
