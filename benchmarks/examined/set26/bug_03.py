import torch
import torch.distributed as dist


class MemoryObj:
    def __init__(self, tensor, start, end):
        self.tensor = tensor
        self.start = start
        self.end = end


class PagedMemGPUConnector:
    """Moves KV chunks between LMCache memory objects and the paged cache."""

    def __init__(self, kv_caches):
        self.kv_caches = kv_caches
        self.load_stream = torch.cuda.Stream()

    def to_gpu(self, obj, slot_mapping):
        slots = slot_mapping[obj.start:obj.end]
        for layer, cache in enumerate(self.kv_caches):
            cache.index_copy_(0, slots, obj.tensor[layer])

    def batched_to_gpu(self, objs, slot_mapping):
        with torch.cuda.stream(self.load_stream):
            for obj in objs:
                self.to_gpu(obj, slot_mapping)
        self.load_stream.synchronize()


class LMCacheEngine:
    def __init__(self, connector, group, chunk_size, shape, dtype, store):
        self.gpu_connector = connector
        self.group = group
        self.chunk_size = chunk_size
        self.shape = shape
        self.dtype = dtype
        self.store = store
        self.is_first_rank = dist.get_rank(group) == 0

    def _broadcast_or_receive(self, keys):
        objs = []
        for i, key in enumerate(keys):
            device_obj = torch.empty(self.shape, dtype=self.dtype, device="cuda")
            if self.is_first_rank:
                device_obj.copy_(self.store[key], non_blocking=True)
            dist.broadcast(device_obj, src=0, group=self.group)
            objs.append(MemoryObj(device_obj, i * self.chunk_size, (i + 1) * self.chunk_size))
        return objs

    @torch.inference_mode()
    def retrieve(self, keys, slot_mapping):
        objs = self._broadcast_or_receive(keys)
        self.gpu_connector.batched_to_gpu(objs, slot_mapping)
        return len(objs) * self.chunk_size


def serve(requests, num_layers=32, heads=8, dim=128, chunk=256, store=None):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    kv = [torch.zeros(65536, heads, dim, dtype=torch.float16, device="cuda")
          for _ in range(num_layers)]
    connector = PagedMemGPUConnector(kv)
    engine = LMCacheEngine(connector, dist.group.WORLD, chunk,
                           (num_layers, chunk, heads, dim), torch.float16, store or {})
    for req in requests:
        slots = torch.as_tensor(req["slots"]).cuda()
        torch.cuda.current_stream().synchronize()
        engine.retrieve(req["keys"], slots)
