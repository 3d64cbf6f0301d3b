import torch


class KVConnector:
    """Stores the KV of finished layers in host memory."""

    def __init__(self, layers, slots, dim):
        self.stream = torch.cuda.Stream()
        self.k_host = torch.empty(layers, slots, dim, dtype=torch.half, pin_memory=True)
        self.v_host = torch.empty(layers, slots, dim, dtype=torch.half, pin_memory=True)

    def save_kv_layer(self, layer, k, v, event):
        self.stream.wait_event(event)
        with torch.cuda.stream(self.stream):
            self.k_host[layer].copy_(k, non_blocking=True)
            self.v_host[layer].copy_(v, non_blocking=True)

    def wait_for_save(self):
        self.stream.synchronize()


class AttentionLayer:
    def __init__(self, index, dim, slots, connector):
        self.index = index
        self.wk = torch.randn(dim, dim, dtype=torch.half, device="cuda") / dim**0.5
        self.wv = torch.randn(dim, dim, dtype=torch.half, device="cuda") / dim**0.5
        self.k = torch.zeros(slots, dim, dtype=torch.half, device="cuda")
        self.v = torch.zeros(slots, dim, dtype=torch.half, device="cuda")
        self.kv_ready = torch.cuda.Event()
        self.connector = connector

    def __call__(self, x):
        torch.matmul(x, self.wk, out=self.k)
        self.kv_ready.record()
        torch.matmul(x, self.wv, out=self.v)
        self.connector.save_kv_layer(self.index, self.k, self.v, self.kv_ready)
        attn = torch.softmax((x @ self.k.T).float(), dim=-1).half()
        return x + attn @ self.v


def main(layers=16, slots=1024, dim=1024):
    connector = KVConnector(layers, slots, dim)
    stack = [AttentionLayer(i, dim, slots, connector) for i in range(layers)]
    torch.cuda.synchronize()
    x = torch.randn(slots, dim, dtype=torch.half, device="cuda")
    for layer in stack:
        x = torch.nn.functional.layer_norm(layer(x), (dim,))
    connector.wait_for_save()
    print(connector.k_host.float().std().item(), connector.v_host.float().std().item())


if __name__ == "__main__":
    main()
