import torch

from .hostlayer import HostLayer
from .slots import WeightSlot


def stream_layers(layers, dtype=torch.float16, resident=2):
    """Run `layers` in order with only a few of them on the device."""
    hosts = [HostLayer(layer, dtype) for layer in layers]
    numel = hosts[0].host.numel()
    assert all(h.host.numel() == numel for h in hosts)
    slots = [WeightSlot(numel, dtype) for _ in range(resident)]
    copier = torch.cuda.Stream()
    copier.wait_stream(torch.cuda.current_stream())

    def slot_of(i):
        return slots[i % resident]

    def prefetch(i):
        i %= len(hosts)
        if slot_of(i).holder != i:
            slot_of(i).load(i, hosts[i].host, copier)

    def before(i):
        def hook(module, args):
            prefetch(i)
            hosts[i].bind(slot_of(i).enter(i))
        return hook

    def after(i):
        def hook(module, args, output):
            hosts[i].unbind()
            slot_of(i).leave()
            prefetch(i + resident)
        return hook

    for i, layer in enumerate(layers):
        layer.register_forward_pre_hook(before(i))
        layer.register_forward_hook(after(i))
    for i in range(resident):
        prefetch(i)
