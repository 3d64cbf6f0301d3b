import torch


class PageStore:
    """Device pages with a host mirror; pages go out in a stream of the store."""

    def __init__(self, pages, width, device="cuda"):
        self.device = device
        self.data = [torch.zeros(width, device=device) for _ in range(pages)]
        self.mirror = [torch.zeros(width).pin_memory() for _ in range(pages)]
        self.out = torch.cuda.Stream(device)
        self._gone = {}

    def __len__(self):
        return len(self.data)

    def evict(self, i):
        self.out.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.out):
            self.mirror[i].copy_(self.data[i], non_blocking=True)
            self._gone[i] = self.out.record_event()

    def claim(self, i):
        gone = self._gone.get(i)
        if gone is not None:
            torch.cuda.current_stream(self.device).wait_event(gone)
        return self.data[i]

    def host_page(self, i):
        gone = self._gone.get(i)
        if gone is not None:
            gone.synchronize()
        return self.mirror[i]


class Writer:
    def __init__(self, store, scale):
        self.store = store
        self.scale = scale

    def fill(self, i, src):
        page = self.store.claim(i)
        page.copy_(src)
        page.mul_(self.scale)
        self.store.evict(i)


class Auditor:
    def __init__(self, store):
        self.store = store
        self.total = 0.0

    def __call__(self, i):
        self.total += float(self.store.host_page(i).sum())


class Session:
    def __init__(self, build_store, auditor_cls=Auditor):
        self.store = build_store()
        self.writer = Writer(self.store, 0.5)
        self.audit = auditor_cls(self.store)

    def turn(self, step, src):
        i = step % len(self.store)
        self.writer.fill(i, src)
        if step >= 1:
            self.audit((step - 1) % len(self.store))


def main():
    session = Session(lambda: PageStore(4, 1 << 20))
    for step in range(32):
        src = torch.full((1 << 20,), float(step), device="cuda")
        session.turn(step, src)
    print(session.audit.total)


if __name__ == "__main__":
    main()
