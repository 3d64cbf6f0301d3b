import numpy as np
import torch


class Harvest:
    def __init__(self, groups, per_group, dim):
        self.buf = [[None] * per_group for _ in range(groups)]
        self.ends = [None] * groups
        self.pull = torch.cuda.Stream()
        self.dim = dim

    def push(self, group, place, rows):
        self.pull.wait_stream(torch.cuda.current_stream())
        host = torch.empty(rows.shape, pin_memory=True)
        with torch.cuda.stream(self.pull):
            host.copy_(rows, non_blocking=True)
        rows.record_stream(self.pull)
        self.buf[group][place] = host

    def seal(self, group):
        end = torch.cuda.Event()
        end.record(self.pull)
        self.ends[group] = end

    def collect(self):
        self.ends[-1].synchronize()
        table = []
        for group in self.buf:
            table.append(np.concatenate([h.numpy() for h in group]))
        return np.stack(table)


@torch.inference_mode()
def embed_all(encoder, groups, per_group, batch, dim):
    harvest = Harvest(groups, per_group, dim)
    for g in range(groups):
        for p in range(per_group):
            torch.manual_seed(g * per_group + p)
            x = torch.randn(batch, dim, device="cuda")
            e = torch.nn.functional.normalize(encoder(x), dim=-1)
            harvest.push(g, p, e)
        harvest.seal(g)
    return harvest.collect()


def nearest(table, k):
    flat = table.reshape(-1, table.shape[-1])
    sim = flat[:16] @ flat.T
    return np.argsort(-sim, axis=1)[:, 1 : k + 1]


def main():
    dim = 128
    encoder = torch.nn.Sequential(
        torch.nn.Linear(dim, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, dim),
    ).cuda()
    table = embed_all(encoder, groups=4, per_group=6, batch=256, dim=dim)
    print(table.shape, nearest(table, 3)[0])


if __name__ == "__main__":
    main()
