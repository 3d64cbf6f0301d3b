from collections import OrderedDict

import torch


class BlockStore:
    def __init__(self, gpu_blocks, sequences, tokens, dim):
        self.gpu = torch.zeros(gpu_blocks, 2, tokens, dim, device="cuda")
        self.cpu = torch.zeros(sequences, 2, tokens, dim, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.pending = {}

    def move_out(self, block, seq):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.cpu[seq].copy_(self.gpu[block], non_blocking=True)
        self.pending[block] = self.stream.record_event()
        return self.pending[block]

    def move_in(self, seq, block):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.gpu[block].copy_(self.cpu[seq], non_blocking=True)
        self.pending[block] = self.stream.record_event()

    def acquire(self, block):
        event = self.pending.pop(block, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        return self.gpu[block]


class Scheduler:
    def __init__(self, store):
        self.store = store
        self.resident = OrderedDict()
        self.spare = list(range(store.gpu.size(0)))
        self.swaps = 0

    def locate(self, seq):
        if seq in self.resident:
            self.resident.move_to_end(seq)
        else:
            if self.spare:
                block = self.spare.pop()
            else:
                victim, block = self.resident.popitem(last=False)
                self.store.move_out(block, victim)
                self.swaps += 1
            self.store.move_in(seq, block)
            self.resident[seq] = block
        return self.resident[seq]

    def dump(self, seq):
        if seq in self.resident:
            block = self.resident.pop(seq)
            self.store.move_out(block, seq).synchronize()
            self.spare.append(block)
        else:
            self.store.stream.synchronize()
        return self.store.cpu[seq].numpy().copy()


class Decoder:
    def __init__(self, dim):
        self.wq, self.wk, self.wv = (torch.randn(dim, dim, device="cuda") / dim ** 0.5 for _ in range(3))

    def step(self, x, cache, pos):
        cache[0, pos].copy_((x @ self.wk).squeeze(0))
        cache[1, pos].copy_((x @ self.wv).squeeze(0))
        scores = (x @ self.wq) @ cache[0, :pos + 1].t() / x.size(1) ** 0.5
        return scores.softmax(dim=-1) @ cache[1, :pos + 1]


def main(sequences=16, gpu_blocks=6, tokens=64, dim=512):
    torch.manual_seed(9)
    store = BlockStore(gpu_blocks, sequences, tokens, dim)
    sched = Scheduler(store)
    decoder = Decoder(dim)
    hidden = [torch.randn(1, dim, device="cuda") for _ in range(sequences)]
    length = [0] * sequences
    for step in range(sequences * tokens):
        seq = (step * 5 + step // 7) % sequences
        if length[seq] == tokens:
            continue
        cache = store.acquire(sched.locate(seq))
        out = decoder.step(hidden[seq], cache, length[seq])
        hidden[seq] = torch.nn.functional.layer_norm(hidden[seq] + out, (dim,))
        length[seq] += 1
    checks = [float(sched.dump(s)[:, :length[s]].sum()) for s in range(sequences)]
    print(sched.swaps, length, [round(c, 2) for c in checks])


if __name__ == "__main__":
    main()
