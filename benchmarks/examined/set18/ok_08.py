"""Layer-wise KV transfer: each layer's cache goes to page-locked memory while later layers run."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class PrefillRequest:
    rid: str
    input_ids: torch.Tensor
    host_kv: list = field(default_factory=list)
    layer_done: list = field(default_factory=list)


class KVSender:
    """Reads the cache on a transfer stream, one event per layer and direction."""

    def __init__(self, num_layers, device):
        self.device = device
        self.num_layers = num_layers
        self.transfer_stream = torch.cuda.Stream(device=device)
        self.computed = [torch.cuda.Event() for _ in range(num_layers)]

    def begin(self, req, kv_shape, dtype):
        req.host_kv = [
            torch.empty(kv_shape, dtype=dtype, pin_memory=True) for _ in range(self.num_layers)
        ]
        req.layer_done = []

    def save_kv_layer(self, req, layer_id, kv):
        self.computed[layer_id].record(torch.cuda.current_stream(self.device))
        self.transfer_stream.wait_event(self.computed[layer_id])
        with torch.cuda.stream(self.transfer_stream):
            req.host_kv[layer_id].copy_(kv, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        req.layer_done.append(done)

    def fence(self):
        """Join the transfer stream."""
        torch.cuda.current_stream(self.device).wait_stream(self.transfer_stream)


class PrefillWorker:
    def __init__(self, embed, layers, num_tokens, num_heads, head_dim, device):
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.device = device
        shape = (2, num_tokens, num_heads, head_dim)
        self.kv = [
            torch.empty(shape, dtype=torch.bfloat16, device=device) for _ in self.layers
        ]
        self.sender = KVSender(len(self.layers), device)

    @torch.inference_mode()
    def prefill(self, req):
        ids = req.input_ids.to(self.device, non_blocking=True)
        n = ids.shape[0]
        shape = (2, n, *self.kv[0].shape[2:])
        self.sender.begin(req, shape, torch.bfloat16)
        self.sender.fence()
        hidden = self.embed(ids)
        for layer_id, layer in enumerate(self.layers):
            kv = self.kv[layer_id][:, :n]
            hidden, k, v = layer(hidden)
            kv[0].copy_(k)
            kv[1].copy_(v)
            self.sender.save_kv_layer(req, layer_id, kv)
        return hidden[-1]


class DecodePeer:
    """Stands for the network side: consumes layers in order as they arrive."""

    def __init__(self, socket):
        self.socket = socket

    def push(self, req):
        for layer_id, done in enumerate(req.layer_done):
            done.synchronize()
            payload = req.host_kv[layer_id].view(torch.uint8).numpy()
            self.socket.send((req.rid, layer_id), payload.tobytes())


def serve(worker, peer, requests):
    in_flight = None
    for req in requests:
        last_hidden = worker.prefill(req)
        if in_flight is not None:
            peer.push(in_flight[0])
        in_flight = (req, last_hidden)
    if in_flight is not None:
        peer.push(in_flight[0])
