"""Tensors under construction on a loader stream are tracked by key; readers ask for them by key."""
import torch


class TensorStore:
    def __init__(self):
        self._data: dict[str, torch.Tensor] = {}
        self._write: dict[str, torch.cuda.Event] = {}
        self._reads: dict[str, dict[int, torch.cuda.Event]] = {}

    def allocate(self, key: str, *shape: int):
        self._data[key] = torch.zeros(*shape, device="cuda")
        self._write[key] = torch.cuda.current_stream().record_event()
        self._reads[key] = {}

    def read(self, *keys: str):
        s = torch.cuda.current_stream()
        for k in keys:
            s.wait_event(self._write[k])
        return [self._data[k] for k in keys]

    def write(self, key: str) -> torch.Tensor:
        s = torch.cuda.current_stream()
        s.wait_event(self._write[key])
        for ev in self._reads[key].values():
            s.wait_event(ev)
        self._reads[key].clear()
        return self._data[key]

    def done(self, reads=(), writes=()):
        s = torch.cuda.current_stream()
        for k in reads:
            self._reads[k][s.cuda_stream] = s.record_event()
        for k in writes:
            self._write[k] = s.record_event()


def task(store: TensorStore, stream: torch.cuda.Stream, fn, reads: list[str], write: str):
    with torch.cuda.stream(stream):
        args = store.read(*reads)
        fn(*args, out=store.write(write))
        store.done(reads=reads, writes=[write])


def main():
    store = TensorStore()
    for k in "abcd":
        store.allocate(k, 1024, 1024)
    s = [torch.cuda.Stream() for _ in range(3)]
    one = torch.eye(1024, device="cuda") * 0.5
    for st in s:
        st.wait_stream(torch.cuda.current_stream())
    for i in range(12):
        task(store, s[i % 3], lambda a, out: torch.add(a, one, out=out), ["a"], "b")
        task(store, s[(i + 1) % 3], lambda b, out: torch.tanh(b, out=out), ["b"], "c")
        task(store, s[(i + 2) % 3], torch.mm, ["b", "c"], "d")
        task(store, s[i % 3], lambda c, d, out: torch.sub(c, d, out=out), ["c", "d"], "a")
    (a,) = store.read("a")
    print(a.trace().item())
    for st in s:
        torch.cuda.current_stream().wait_stream(st)


if __name__ == "__main__":
    main()
