import torch


class StaticBufferPool:
    def __init__(self, template, capacity, device):
        self.slots = [
            {n: torch.empty(t.shape, dtype=t.dtype, device=device) for n, t in template.items()}
            for _ in range(capacity)
        ]

    def get(self, index):
        return self.slots[index % len(self.slots)]


class ModuleOffloader:
    def __init__(self, index, module, pool, copy_stream):
        self.index = index
        self.module = module
        self.buffers = pool.get(index)
        self.copy_stream = copy_stream
        self.host = {n: p.data.cpu().pin_memory() for n, p in module.named_parameters()}
        self.done = torch.cuda.Event()
        for name, p in module.named_parameters():
            p.data = self.buffers[name]

    def start_onload(self):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for name, host in self.host.items():
                self.buffers[name].copy_(host, non_blocking=True)
            self.done.record(self.copy_stream)

    def wait(self):
        torch.cuda.current_stream().wait_event(self.done)


class PrefetchOffloader:
    def __init__(self, modules, prefetch_step=1, device="cuda"):
        template = {n: p.data for n, p in modules[0].named_parameters()}
        self.step = prefetch_step
        self.copy_stream = torch.cuda.Stream()
        pool = StaticBufferPool(template, prefetch_step + 1, device)
        self.offloaders = [ModuleOffloader(i, m, pool, self.copy_stream) for i, m in enumerate(modules)]

    def forward(self, x):
        for off in self.offloaders[: self.step]:
            off.start_onload()
        for i, off in enumerate(self.offloaders):
            if i + self.step < len(self.offloaders):
                self.offloaders[i + self.step].start_onload()
            off.wait()
            x = off.module(x)
        self.join_after_forward()
        return x

    def join_after_forward(self):
        torch.cuda.current_stream().wait_stream(self.copy_stream)


class GraphedDecoder:
    def __init__(self, modules, hidden, max_batch, device="cuda"):
        self.offloader = PrefetchOffloader(modules, device=device)
        self.x = torch.zeros(max_batch, hidden, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.out = None

    @torch.inference_mode()
    def capture(self):
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            self.offloader.forward(self.x)
        torch.cuda.current_stream().wait_stream(warmup)
        with torch.cuda.graph(self.graph):
            self.out = self.offloader.forward(self.x)

    @torch.inference_mode()
    def __call__(self, x):
        self.x[: x.shape[0]].copy_(x)
        self.graph.replay()
        return self.out[: x.shape[0]].clone()
