"""Bucketed gradient reduction on a communication stream."""
import torch
import torch.distributed as dist


class Bucket:
    def __init__(self, params):
        self.params = params
        self.numel = sum(p.numel() for p in params)
        self.pending = len(params)
        self.flat = None
        self.work = None


class GradReducer:
    def __init__(self, module, bucket_numel=1 << 20):
        self.comm_stream = torch.cuda.Stream()
        self.buckets, self.owner = [], {}
        group, size = [], 0
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            group.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self._add(group)
                group, size = [], 0
        if group:
            self._add(group)

    def _add(self, params):
        bucket = Bucket(params)
        self.buckets.append(bucket)
        for p in params:
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        bucket = self.owner[p]
        bucket.pending -= 1
        if bucket.pending:
            return
        bucket.flat = torch.cat([q.grad.reshape(-1) for q in bucket.params])
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            bucket.flat.div_(dist.get_world_size())
            bucket.work = dist.all_reduce(bucket.flat, async_op=True)
        bucket.flat.record_stream(self.comm_stream)

    def finish(self):
        with torch.cuda.stream(self.comm_stream):
            for bucket in self.buckets:
                bucket.work.wait()
        torch.cuda.current_stream().wait_stream(self.comm_stream)
        for bucket in self.buckets:
            offset = 0
            for p in bucket.params:
                p.grad.copy_(bucket.flat[offset:offset + p.numel()].view_as(p))
                offset += p.numel()
            bucket.pending = len(bucket.params)
            bucket.flat = bucket.work = None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    reducer = GradReducer(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        loss = model(torch.randn(256, 1024, device="cuda")).pow(2).mean()
        loss.backward()
        reducer.finish()
        opt.step()
        opt.zero_grad()
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
