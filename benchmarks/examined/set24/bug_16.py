import bisect

import torch


class ArenaChunk:
    def __init__(self, offset, size):
        self.offset = offset
        self.size = size


class BFCArena:
    """Best-fit arena over one device slab; alloc and free happen on the host only."""

    def __init__(self, nbytes, device):
        self.slab = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.free_list = [ArenaChunk(0, nbytes)]

    def alloc(self, shape, dtype):
        itemsize = torch.empty((), dtype=dtype).element_size()
        numel = 1
        for s in shape:
            numel *= s
        size = (numel * itemsize + 255) // 256 * 256
        best = min((c for c in self.free_list if c.size >= size), key=lambda c: c.size, default=None)
        if best is None:
            raise MemoryError(size)
        chunk = ArenaChunk(best.offset, size)
        best.offset += size
        best.size -= size
        if best.size == 0:
            self.free_list.remove(best)
        raw = self.slab[chunk.offset : chunk.offset + numel * itemsize]
        return raw.view(dtype).view(shape), chunk

    def free(self, chunk):
        keys = [c.offset for c in self.free_list]
        self.free_list.insert(bisect.bisect_left(keys, chunk.offset), chunk)


class ExecutionFrame:
    def __init__(self, arena):
        self.arena = arena
        self.values = {}

    def create(self, name, shape, dtype):
        tensor, chunk = self.arena.alloc(shape, dtype)
        self.values[name] = (tensor, chunk)
        return tensor

    def get(self, name):
        return self.values[name][0]

    def release(self, name):
        _, chunk = self.values.pop(name)
        self.arena.free(chunk)


class SequentialExecutor:
    """Runs a node list; copies to the CPU use the provider's own copy stream."""

    def __init__(self, nodes, last_use, arena_bytes, device="cuda"):
        self.nodes = nodes
        self.last_use = last_use
        self.arena = BFCArena(arena_bytes, device)
        self.compute_stream = torch.cuda.Stream(device)
        self.d2h_stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)

    def _memcpy_to_host(self, src):
        host = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        self.d2h_stream.wait_stream(self.compute_stream)
        with torch.cuda.stream(self.d2h_stream):
            host.copy_(src, non_blocking=True)
        return host

    @torch.inference_mode()
    def run(self, feeds):
        frame = ExecutionFrame(self.arena)
        outputs = {}
        with torch.cuda.stream(self.compute_stream):
            for name, value in feeds.items():
                host = torch.from_numpy(value)
                frame.create(name, host.shape, host.dtype).copy_(host)
            for i, node in enumerate(self.nodes):
                if node.op == "MemcpyToHost":
                    outputs[node.output] = self._memcpy_to_host(frame.get(node.inputs[0]))
                else:
                    args = [frame.get(n) for n in node.inputs]
                    dst = frame.create(node.output, node.infer_shape(args), args[0].dtype)
                    node.kernel(*args, out=dst)
                for name in self.last_use.get(i, ()):
                    frame.release(name)
        for name in list(frame.values):
            frame.release(name)
        self.d2h_stream.synchronize()
        return outputs
