"""Pipeline-parallel decode: activations go to the next stage microbatch by microbatch."""
import os

import torch
import torch.distributed as dist


class FirstStage:
    def __init__(self, dim, peer):
        self.w = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.send_buf = torch.empty(32, dim, device="cuda")
        self.peer = peer
        self.works = []

    def run(self, x):
        torch.matmul(x, self.w, out=self.send_buf)
        self.send_buf.tanh_()
        self.works.append(dist.isend(self.send_buf, self.peer))

    def flush(self):
        for work in self.works:
            work.wait()
        self.works.clear()


class LastStage:
    def __init__(self, dim, vocab, peer):
        self.head = torch.randn(dim, vocab, device="cuda")
        self.peer = peer
        self.dim = dim

    def run(self):
        buf = torch.empty(32, self.dim, device="cuda")
        dist.irecv(buf, self.peer).wait()
        return (buf @ self.head).argmax(-1)


def main(micro_batches=8, rounds=16, dim=4096):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if dist.get_rank() == 0:
        stage = FirstStage(dim, 1)
        for _ in range(rounds):
            for _ in range(micro_batches):
                stage.run(torch.randn(32, dim, device="cuda"))
            stage.flush()
    else:
        stage = LastStage(dim, 32000, 0)
        ids = [stage.run() for _ in range(rounds * micro_batches)]
        print(torch.stack(ids).float().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
