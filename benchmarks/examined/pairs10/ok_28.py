"""Token packer: rows are packed by NumPy and sent to the device in rounds."""
import numpy as np
import torch


class PackedUpload:
    """Pinned rows are used in turn; the stream is drained once per round."""

    def __init__(self, rows, length):
        self.stream = torch.cuda.Stream()
        self.rows = [torch.zeros(length, dtype=torch.int32, pin_memory=True) for _ in range(rows)]
        self.used = 0

    def _next_row(self):
        index = self.used % len(self.rows)
        if index == 0 and self.used:
            self.stream.synchronize()
        self.used += 1
        return self.rows[index]

    def send(self, documents):
        row = self._next_row()
        packed = row.numpy()
        position = 0
        for document in documents:
            take = min(len(document), packed.size - position)
            packed[position:position + take] = document[:take]
            position += take
        packed[position:] = 0
        with torch.cuda.stream(self.stream):
            tokens = row.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        tokens.record_stream(torch.cuda.current_stream())
        return tokens


def documents(rng, total):
    while total > 0:
        size = int(rng.integers(100, 4000))
        total -= size
        yield rng.integers(1, 32000, size, dtype=np.int32)


def main(steps=400, length=1 << 20):
    rng = np.random.default_rng(0)
    upload = PackedUpload(rows=8, length=length)
    table = torch.nn.Embedding(32000, 16).cuda()
    total = torch.zeros(16, device="cuda")
    with torch.no_grad():
        for _ in range(steps):
            total += table(upload.send(documents(rng, length))).mean(dim=0)
    print(total.tolist()[:4])


if __name__ == "__main__":
    main()
