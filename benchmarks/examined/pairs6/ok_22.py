"""Training on a dedicated stream; flat gradients are averaged on a communication stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class GradientAverager:
    def __init__(self, module):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.comm_stream = torch.cuda.Stream()
        self.world = dist.get_world_size()

    def launch(self):
        producer = torch.cuda.current_stream()
        flat = torch.cat([p.grad.reshape(-1) for p in self.params])
        self.comm_stream.wait_stream(producer)
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(flat)
            flat.div_(self.world)
        flat.record_stream(self.comm_stream)
        return flat

    def scatter(self, flat):
        torch.cuda.current_stream().wait_stream(self.comm_stream)
        offset = 0
        for p in self.params:
            p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()


def train(steps=300):
    train_stream = torch.cuda.Stream()
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    aux = nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    aux_optimizer = torch.optim.AdamW(aux.parameters(), lr=1e-3)
    train_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(train_stream):
        averager = GradientAverager(model)
        for _ in range(steps):
            x = torch.randn(256, 1024, device="cuda")
            y = model(x)
            (y - x).square().mean().backward()
            flat = averager.launch()
            aux_loss = (aux(y.detach()) - x).abs().mean()
            aux_loss.backward()
            aux_optimizer.step()
            aux_optimizer.zero_grad(set_to_none=True)
            averager.scatter(flat)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    train_stream.synchronize()
    return model


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = train()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
