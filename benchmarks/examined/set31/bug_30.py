"""Tabular loader which moves chunks to the GPU in a background thread."""
import queue
import threading

import torch


class ChunkLoader:
    def __init__(self, columns, batch_size, device, depth=2):
        self.columns = {k: v.pin_memory() for k, v in columns.items()}
        self.rows = len(next(iter(columns.values())))
        self.batch_size = batch_size
        self.device = device
        self.depth = depth

    def _produce(self, out):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        for lo in range(0, self.rows, self.batch_size):
            with torch.cuda.stream(stream):
                batch = {
                    k: v[lo:lo + self.batch_size].to(self.device, non_blocking=True)
                    for k, v in self.columns.items()
                }
            out.put(batch)
        out.put(None)

    def __iter__(self):
        out = queue.Queue(self.depth)
        worker = threading.Thread(target=self._produce, args=(out,), daemon=True)
        worker.start()
        while True:
            batch = out.get()
            if batch is None:
                break
            yield batch
        worker.join()


class Model(torch.nn.Module):
    def __init__(self, cardinality, dim=64):
        super().__init__()
        self.emb = torch.nn.Embedding(cardinality, dim)
        self.head = torch.nn.Linear(dim + 1, 1)

    def forward(self, batch):
        x = torch.cat([self.emb(batch["item"]), batch["price"]], dim=1)
        return self.head(x).squeeze(1)


def main():
    device = torch.device("cuda:0")
    n = 1 << 21
    columns = {
        "item": torch.randint(0, 100000, (n,)),
        "price": torch.rand(n, 1),
        "label": torch.randint(0, 2, (n,)).float(),
    }
    model = Model(100000).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for batch in ChunkLoader(columns, 65536, device):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch), batch["label"])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
