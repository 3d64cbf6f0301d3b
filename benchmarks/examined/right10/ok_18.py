"""Mirror parameters to a second device over a private stream on each side."""
import torch


class PeerMirror:
    def __init__(self, src: torch.Tensor, dst_device: str):
        self.src = src
        self.src_dev = src.device
        self.dst_dev = torch.device(dst_device)
        self.dst = torch.zeros_like(src, device=self.dst_dev)
        with torch.cuda.device(self.src_dev):
            self.push_stream = torch.cuda.Stream()
            self.pushed = torch.cuda.Event()
            self.produced = torch.cuda.Event()
        with torch.cuda.device(self.dst_dev):
            self.recv_stream = torch.cuda.Stream()
            self.consumed = torch.cuda.Event()
            self.consumed.record()

    def push(self):
        with torch.cuda.device(self.src_dev):
            self.produced.record()
        self.push_stream.wait_event(self.produced)
        self.push_stream.wait_event(self.consumed)
        with torch.cuda.stream(self.recv_stream), torch.cuda.stream(self.push_stream):
            self.dst.copy_(self.src, non_blocking=True)
        self.pushed.record(self.push_stream)
        with torch.cuda.device(self.src_dev):
            torch.cuda.current_stream().wait_event(self.pushed)

    def read(self, fn):
        with torch.cuda.device(self.dst_dev):
            torch.cuda.current_stream().wait_event(self.pushed)
            out = fn(self.dst)
            self.consumed.record()
            return out


def main():
    w = torch.randn(4096, 4096, device="cuda:0")
    mirror = PeerMirror(w, "cuda:1")
    norms = []
    for step in range(20):
        w.mul_(0.99).add_(torch.randn_like(w), alpha=0.01)
        mirror.push()
        norms.append(mirror.read(torch.linalg.vector_norm))
    print([round(n.item(), 3) for n in norms])


if __name__ == "__main__":
    main()
