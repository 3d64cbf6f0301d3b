import torch


class EncodeService:
    def __init__(self, encoder, arena, spiller):
        self.encoder = encoder
        self.arena = arena
        self.spiller = spiller
        self.results = {}
        spiller.on_ready = self._collect

    def _collect(self, key, host_row):
        self.results[key] = host_row.float().abs().max().item()

    def _row(self):
        row = self.arena.lease()
        tries = 0
        while row is None:
            self.spiller.reap(block=tries > 2)
            row = self.arena.lease()
            tries += 1
        return row

    @torch.inference_mode()
    def submit(self, key, x):
        row = self._row()
        self.arena.view(row).copy_(self.encoder(x))
        self.spiller.spill(key, row)

    def drain(self):
        self.spiller.reap(block=True)
        return self.results

    def __len__(self):
        return len(self.results)

    def strongest(self, n=3):
        order = sorted(self.results, key=self.results.get, reverse=True)
        return order[:n]
