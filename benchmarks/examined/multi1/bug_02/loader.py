import numpy as np


class ShardLoader:
    def __init__(self, paths, uploader):
        self.paths = sorted(paths)
        self.up = uploader
        self.seen = 0

    def __len__(self):
        return len(self.paths)

    def batches(self):
        rows = self.up.rows
        for path in self.paths:
            shard = np.load(path, mmap_mode="r")
            full, rest = divmod(len(shard), rows)
            for i in range(full):
                self.up.done()
                self.up.view[:] = shard[i * rows:(i + 1) * rows]
                self.seen += rows
                yield self.up.send(rows)
            if rest:
                np.copyto(self.up.view[:rest], shard[full * rows:])
                self.seen += rest
                yield self.up.send(rest)
            self.up.done()
