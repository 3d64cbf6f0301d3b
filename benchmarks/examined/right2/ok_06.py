from __future__ import annotations

import torch


class LayerDoneCounter:
    """One event per layer of a host-to-device cache load."""

    def __init__(self, num_layers: int):
        self.events = [torch.cuda.Event() for _ in range(num_layers)]

    def complete(self, layer: int, stream: torch.cuda.Stream) -> None:
        self.events[layer].record(stream)

    def wait_until(self, layer: int) -> None:
        torch.cuda.current_stream().wait_event(self.events[layer])


class DeviceKVPool:
    def __init__(self, num_layers, num_slots, heads, dim, device):
        self.k = [torch.zeros(num_slots, heads, dim, device=device) for _ in range(num_layers)]
        self.v = [torch.zeros(num_slots, heads, dim, device=device) for _ in range(num_layers)]
        self.layer_counter: LayerDoneCounter | None = None

    def get_kv_buffer(self, layer: int):
        if self.layer_counter is not None:
            self.layer_counter.wait_until(layer)
        return self.k[layer], self.v[layer]

    def set_kv(self, layer, loc, k, v):
        k_buf, v_buf = self.get_kv_buffer(layer)
        k_buf[loc] = k
        v_buf[loc] = v


class HostKVPool:
    def __init__(self, num_layers, num_slots, heads, dim):
        self.k = torch.zeros(num_layers, num_slots, heads, dim)
        self.v = torch.zeros(num_layers, num_slots, heads, dim)


class HiCacheController:
    def __init__(self, device_pool: DeviceKVPool, host_pool: HostKVPool, device):
        self.device_pool = device_pool
        self.host_pool = host_pool
        self.device = device
        self.num_layers = len(device_pool.k)
        self.load_stream = torch.cuda.Stream(device)

    def backup(self, host_loc: torch.Tensor, device_loc: torch.Tensor) -> None:
        for layer in range(self.num_layers):
            k, v = self.device_pool.get_kv_buffer(layer)
            self.host_pool.k[layer][host_loc] = k[device_loc].cpu()
            self.host_pool.v[layer][host_loc] = v[device_loc].cpu()

    def load(self, host_loc: torch.Tensor, device_loc: torch.Tensor) -> None:
        counter = LayerDoneCounter(self.num_layers)
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            for layer in range(self.num_layers):
                k = self.host_pool.k[layer][host_loc].to(self.device)
                v = self.host_pool.v[layer][host_loc].to(self.device)
                self.device_pool.k[layer].index_copy_(0, device_loc, k)
                self.device_pool.v[layer].index_copy_(0, device_loc, v)
                counter.complete(layer, self.load_stream)
        device_loc.record_stream(self.load_stream)
        self.device_pool.layer_counter = counter


def attend(pool: DeviceKVPool, layer: int, q: torch.Tensor, loc: torch.Tensor):
    k, v = pool.get_kv_buffer(layer)
    scores = torch.einsum("hd,shd->hs", q, k[loc]) * q.shape[-1] ** -0.5
    return torch.einsum("hs,shd->hd", scores.softmax(-1), v[loc])


def extend(controller: HiCacheController, layers, hidden, host_loc, device_loc):
    """Run a prefix-hit request whose cached part comes from the host tier."""
    controller.load(host_loc, device_loc)
    pool = controller.device_pool
    for index, layer in enumerate(layers):
        q = layer(hidden).view(*pool.k[index].shape[1:])
        hidden = hidden + attend(pool, index, q, device_loc).flatten()
    return hidden
