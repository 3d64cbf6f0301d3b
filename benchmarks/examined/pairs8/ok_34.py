import torch


class LayerwiseSender:
    """Quantizes KV layers and stages them for the network thread."""

    def __init__(self, layers, tokens, dim):
        self.quant_stream = torch.cuda.Stream()
        self.send_stream = torch.cuda.Stream()
        self.q8 = torch.empty(layers, tokens, dim, dtype=torch.int8, device="cuda")
        self.wire = torch.empty(layers, tokens, dim, dtype=torch.int8, pin_memory=True)
        self.scales = torch.empty(layers, tokens, 1, pin_memory=True)

    def on_layer(self, i, kv, scale):
        self.quant_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.quant_stream):
            torch.mul(kv, 127.0 / scale, out=kv)
            self.q8[i].copy_(kv.round_().clamp_(-127, 127))
        self.send_stream.wait_stream(self.quant_stream)
        with torch.cuda.stream(self.send_stream):
            self.wire[i].copy_(self.q8[i], non_blocking=True)
            self.scales[i].copy_(scale, non_blocking=True)

    def fence(self):
        torch.cuda.current_stream().wait_stream(self.send_stream)

    def payload(self):
        self.send_stream.synchronize()
        return self.wire.numpy().tobytes(), self.scales.numpy().tobytes()


class PrefillModel:
    def __init__(self, layers=12, tokens=256, dim=512):
        self.weights = torch.randn(layers, dim, dim, device="cuda") / dim**0.5
        self.kv = torch.empty(layers, tokens, dim, device="cuda")
        self.scale = torch.empty(layers, tokens, 1, device="cuda")
        self.sender = LayerwiseSender(layers, tokens, dim)

    def prefill(self, x):
        self.sender.fence()
        for i, w in enumerate(self.weights):
            x = torch.tanh(x @ w)
            self.kv[i].copy_(x)
            torch.amax(self.kv[i].abs(), dim=-1, keepdim=True, out=self.scale[i])
            self.sender.on_layer(i, self.kv[i], self.scale[i])
        return x


def main():
    model = PrefillModel()
    sizes = []
    for _ in range(4):
        model.prefill(torch.randn(256, 512, device="cuda"))
        sizes.append(tuple(len(p) for p in model.sender.payload()))
    print(sizes)


if __name__ == "__main__":
    main()
