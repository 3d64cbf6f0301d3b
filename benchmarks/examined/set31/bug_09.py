import torch
import torch.distributed as dist


class BucketReducer:
    def __init__(self, params):
        self.params = list(params)
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device="cuda")
        self.reduction_stream = torch.cuda.Stream()

    def fill(self):
        start = 0
        for p in self.params:
            self.flat[start:start + p.numel()].copy_(p.grad.view(-1))
            start += p.numel()

    def average(self):
        with torch.cuda.stream(self.reduction_stream):
            dist.all_reduce(self.flat)
            self.flat.div_(dist.get_world_size())
        torch.cuda.current_stream().wait_stream(self.reduction_stream)

    def unfill(self):
        start = 0
        for p in self.params:
            p.grad.copy_(self.flat[start:start + p.numel()].view_as(p))
            start += p.numel()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Linear(4096, 4096).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    reducer = BucketReducer(model.parameters())
    for _ in range(10):
        model(torch.randn(32, 4096, device="cuda")).sum().backward()
        reducer.fill()
        reducer.average()
        reducer.unfill()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
