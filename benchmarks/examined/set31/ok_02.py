import torch


class Saver:
    def __init__(self):
        self.pack = torch.cuda.Stream()
        self.store = torch.cuda.Stream()

    def save(self, pages, ids):
        cur = torch.cuda.current_stream()
        self.pack.wait_stream(cur)
        with torch.cuda.stream(self.pack):
            packed = pages.index_select(0, ids)
            done = torch.cuda.Event()
            done.record()
        ids.record_stream(self.pack)
        cur.wait_event(done)
        self.store.wait_event(done)
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        with torch.cuda.stream(self.store):
            host.copy_(packed, non_blocking=True)
            packed.record_stream(self.store)
            stored = torch.cuda.Event()
            stored.record()
        return host, stored


def main():
    pages = torch.zeros(128, 4096, device="cuda")
    saver = Saver()
    pending = []
    for step in range(16):
        ids = torch.arange(step, step + 8, device="cuda")
        pages.index_fill_(0, ids, float(step))
        pending.append(saver.save(pages, ids))
        pages.index_fill_(0, ids, 0.0)
    for host, stored in pending:
        stored.synchronize()
        print(host.sum().item())


if __name__ == "__main__":
    main()
