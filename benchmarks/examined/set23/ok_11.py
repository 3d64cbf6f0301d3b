"""Weight loading with a reader thread and a bounded pool of pinned slabs."""
import queue
import threading

import torch
from safetensors import safe_open


class PinnedSlab:
    def __init__(self, nbytes):
        self.storage = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.last_upload = None

    def stage(self, tensor):
        nbytes = tensor.numel() * tensor.element_size()
        view = self.storage[:nbytes].view(tensor.dtype).view(tensor.shape)
        view.copy_(tensor)
        return view


class StagedReader:
    def __init__(self, files, num_slabs=3, slab_bytes=256 << 20):
        self.files = files
        self.slab_bytes = slab_bytes
        self.free = queue.Queue()
        for _ in range(num_slabs):
            self.free.put(PinnedSlab(slab_bytes))
        self.ready = queue.Queue(maxsize=num_slabs)
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            for path in self.files:
                with safe_open(path, framework="pt", device="cpu") as f:
                    for name in f.keys():
                        tensor = f.get_tensor(name)
                        if tensor.numel() * tensor.element_size() > self.slab_bytes:
                            self.ready.put((name, tensor, None))
                            continue
                        slab = self.free.get()
                        if slab.last_upload is not None:
                            slab.last_upload.synchronize()
                        self.ready.put((name, slab.stage(tensor), slab))
        except BaseException as exc:
            self.error = exc
        finally:
            self.ready.put(None)

    def __iter__(self):
        self.thread.start()
        while (item := self.ready.get()) is not None:
            yield item
        self.thread.join()
        if self.error is not None:
            raise self.error

    def recycle(self, slab, event):
        slab.last_upload = event
        self.free.put(slab)


class WeightLoader:
    def __init__(self, model, reader):
        self.params = dict(model.named_parameters())
        self.reader = reader
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def load(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        loaded = set()
        for name, tensor, slab in self.reader:
            param = self.params.get(name)
            with torch.cuda.stream(self.stream):
                if param is not None:
                    if tensor.dtype == param.dtype:
                        param.copy_(tensor, non_blocking=slab is not None)
                    else:
                        param.copy_(tensor.to(param.device, non_blocking=slab is not None))
                    loaded.add(name)
                if slab is not None:
                    event = torch.cuda.Event()
                    event.record()
                    self.reader.recycle(slab, event)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loaded


def main(files):
    model = torch.nn.Transformer(d_model=1024, nhead=16).cuda().bfloat16()
    loaded = WeightLoader(model, StagedReader(files)).load()
    missing = set(dict(model.named_parameters())) - loaded
    print(len(loaded), len(missing))
    with torch.no_grad():
        x = torch.randn(16, 4, 1024, device="cuda", dtype=torch.bfloat16)
        print(model(x, x).float().abs().mean().item())
    return model


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
