"""Weight synchronisation from a trainer rank to generation ranks."""
import torch
import torch.distributed as dist


class WeightReceiver:
    def __init__(self, model, bucket_numel=4 << 20):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.params = list(model.parameters())
        self.bucket_numel = bucket_numel

    def _buckets(self):
        group, size = [], 0
        for p in self.params:
            group.append(p)
            size += p.numel()
            if size >= self.bucket_numel:
                yield group
                group, size = [], 0
        if group:
            yield group

    def sync(self, src=0):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for group in self._buckets():
                flat = torch.cat([p.detach().reshape(-1) for p in group])
                work = dist.broadcast(flat, src=src, async_op=True)
                work.wait()
                offset = 0
                for p in group:
                    p.data.copy_(flat[offset:offset + p.numel()].view_as(p))
                    offset += p.numel()


class Policy(torch.nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, width)
        self.head = torch.nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(torch.tanh(self.embed(ids)))


@torch.no_grad()
def generate(model, prompt, steps):
    ids = prompt
    for _ in range(steps):
        ids = torch.cat([ids, model(ids[:, -1:]).argmax(-1)], dim=1)
    return ids


def train(model, opt, batch):
    loss = torch.nn.functional.cross_entropy(
        model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    opt.step()
    opt.zero_grad()


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = Policy(32000, 1024).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    receiver = WeightReceiver(model)
    for _ in range(10):
        if rank == 0:
            train(model, opt, torch.randint(0, 32000, (8, 128), device="cuda"))
        receiver.sync()
        if rank != 0:
            out = generate(model, torch.zeros(4, 1, dtype=torch.long, device="cuda"), 64)
            print(rank, out.float().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
