import torch

from blocks import ChunkedAttention
from stream_kv import HostKV, Options, RingKV


class Decoder:
    def __init__(self, opt):
        self.lane = opt.compute_lane()
        self.kv = RingKV(opt, HostKV(opt))
        self.layers = [
            ChunkedAttention(i, opt).to(opt.device).half() for i in range(opt.layers)
        ]

    @torch.inference_mode()
    def step(self, x):
        with torch.cuda.stream(self.lane):
            for layer in self.layers:
                x = layer(x, self.kv)
        return x


def main():
    opt = Options()
    decoder = Decoder(opt)
    x = torch.randn(2, opt.hidden, device=opt.device).half()
    for _ in range(12):
        x = decoder.step(x)
    print(x.float().mean().item())


if __name__ == "__main__":
    main()
