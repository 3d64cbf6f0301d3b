import threading

import torch


class TokenWriter(threading.Thread):
    """Packs text ids into the loop's cells, up to capacity."""

    def __init__(self, corpus, loop, pad=0):
        super().__init__(daemon=True)
        self.corpus = corpus
        self.loop = loop
        self.pad = pad

    @staticmethod
    def encode(text):
        return torch.tensor([b + 1 for b in text.encode()], dtype=torch.int64)

    @staticmethod
    def decode(ids):
        return bytes(int(i) - 1 for i in ids if int(i) > 0).decode(errors="replace")

    def run(self):
        for group in self.corpus:
            cell = self.loop.claim()
            room = cell.host.numel()
            pos = 0
            for text in group:
                ids = self.encode(text)[: room - pos]
                cell.host[pos:pos + ids.numel()] = ids
                pos += ids.numel()
            cell.host[pos:].fill_(self.pad)
            cell.length = pos
            self.loop.offer(cell)
        self.loop.stop()
