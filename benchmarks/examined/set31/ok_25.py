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
        with torch.cuda.stream(stream):
            for lo in range(0, self.rows, self.batch_size):
                batch = {
                    k: v[lo:lo + self.batch_size].to(self.device, non_blocking=True)
                    for k, v in self.columns.items()
                }
                out.put((batch, stream.record_event()))
        out.put(None)

    def __iter__(self):
        out = queue.Queue(self.depth)
        worker = threading.Thread(target=self._produce, args=(out,), daemon=True)
        worker.start()
        while (item := out.get()) is not None:
            batch, ready = item
            current = torch.cuda.current_stream(self.device)
            current.wait_event(ready)
            for t in batch.values():
                t.record_stream(current)
            yield batch
        worker.join()


def main():
    device = torch.device("cuda:0")
    n = 1 << 21
    columns = {"x": torch.rand(n, 16), "label": torch.randint(0, 2, (n,)).float()}
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
    ).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for batch in ChunkLoader(columns, 65536, device):
        logits = model(batch["x"]).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch["label"])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
