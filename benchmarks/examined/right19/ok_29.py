"""Key/value blocks that travel between a device cache and a page-locked backing store."""
import torch


class Parked:
    def __init__(self, row):
        self.row = row
        self.saved = torch.cuda.Event()


class BlockStore:
    def __init__(self, device_blocks, host_rows, heads, tokens, dim):
        shape = (2, heads, tokens, dim)
        self.cache = torch.zeros(device_blocks, *shape, dtype=torch.float16, device="cuda")
        self.host = torch.zeros(host_rows, *shape, dtype=torch.float16, pin_memory=True)
        self.rows = list(range(host_rows))
        self.row_read = {}
        self.parked = {}
        self.incoming = {}
        self.outgoing = {}
        self.out_stream = torch.cuda.Stream()
        self.in_stream = torch.cuda.Stream()

    def _settle(self, block, stream):
        for table in (self.incoming, self.outgoing):
            event = table.get(block)
            if event is not None:
                stream.wait_event(event)

    def use(self, block):
        current = torch.cuda.current_stream()
        self._settle(block, current)
        self.incoming.pop(block, None)
        self.outgoing.pop(block, None)
        return self.cache[block]

    def park(self, key, block):
        entry = Parked(self.rows.pop())
        self._settle(block, self.out_stream)
        reader = self.row_read.pop(entry.row, None)
        if reader is not None:
            self.out_stream.wait_event(reader)
        self.out_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.out_stream):
            self.host[entry.row].copy_(self.cache[block], non_blocking=True)
            entry.saved.record()
        self.outgoing[block] = entry.saved
        self.parked[key] = entry

    def recall(self, key, block):
        entry = self.parked.pop(key)
        self._settle(block, self.in_stream)
        self.in_stream.wait_event(entry.saved)
        self.in_stream.wait_stream(torch.cuda.current_stream())
        done = torch.cuda.Event()
        with torch.cuda.stream(self.in_stream):
            self.cache[block].copy_(self.host[entry.row], non_blocking=True)
            done.record()
        self.outgoing.pop(block, None)
        self.incoming[block] = done
        self.row_read[entry.row] = done
        self.rows.append(entry.row)

    def peek(self, key):
        entry = self.parked[key]
        entry.saved.synchronize()
        return self.host[entry.row].clone()


class Session:
    def __init__(self, name, block, seed):
        self.name, self.block = name, block
        self.query = torch.full((8, 1, 64), 0.01 * (seed + 1), dtype=torch.float16, device="cuda")

    def step(self, store):
        k, v = store.use(self.block)
        k.mul_(0.9).add_(self.query)
        v.add_(self.query * 0.5)
        att = (self.query @ k.transpose(1, 2)).softmax(dim=-1)
        return (att @ v).float().mean()


def main(rounds=120):
    store = BlockStore(device_blocks=4, host_rows=8, heads=8, tokens=64, dim=64)
    sessions = [Session(f"s{i}", i if i < 4 else None, i) for i in range(10)]
    for s in sessions[4:]:
        store.park(s.name, s.block or 0)
    active, waiting = sessions[:4], sessions[4:]
    scores = []
    for r in range(rounds):
        scores.extend(s.step(store) for s in active)
        leaving, coming = active.pop(0), waiting.pop(0)
        store.park(leaving.name, leaving.block)
        coming.block, leaving.block = leaving.block, None
        store.recall(coming.name, coming.block)
        active.append(coming)
        waiting.append(leaving)
    print(torch.stack(scores).sum().item())
    for s in waiting:
        print(s.name, store.peek(s.name).float().abs().max().item())
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
