"""Weight hand-over from a trainer to a colocated engine through one shared bucket."""
import torch
import torch.multiprocessing as mp
import torch.nn as nn

BUCKET_ELEMS = 16 * 1024 * 1024


def build_net(width=2048, depth=12):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


def chunk_params(named, limit):
    """Groups parameters so that each group fits in the bucket."""
    group, used = [], 0
    for name, p in named:
        n = p.numel()
        if group and used + n > limit:
            yield group
            group, used = [], 0
        group.append((name, used, p))
        used += n
    if group:
        yield group


class TrainerSide:
    def __init__(self, net, to_engine, from_engine):
        self.net = net
        self.to_engine = to_engine
        self.from_engine = from_engine
        self.bucket = torch.empty(BUCKET_ELEMS, device="cuda")
        self.to_engine.put(self.bucket)

    @torch.no_grad()
    def push(self):
        for group in chunk_params(self.net.named_parameters(), BUCKET_ELEMS):
            layout = []
            for name, offset, p in group:
                self.bucket[offset:offset + p.numel()].copy_(p.reshape(-1))
                layout.append((name, offset, tuple(p.shape)))
            torch.cuda.current_stream().synchronize()
            self.to_engine.put(layout)
            self.from_engine.get()
        self.to_engine.put(None)


class EngineSide:
    def __init__(self, net, inbox, outbox):
        self.params = dict(net.named_parameters())
        self.inbox = inbox
        self.outbox = outbox
        self.load_stream = torch.cuda.Stream()
        self.bucket = inbox.get()

    @torch.no_grad()
    def receive(self):
        while True:
            layout = self.inbox.get()
            if layout is None:
                break
            with torch.cuda.stream(self.load_stream):
                for name, offset, shape in layout:
                    dst = self.params[name]
                    dst.copy_(self.bucket[offset:offset + dst.numel()].view(shape))
            self.outbox.put(len(layout))
        self.load_stream.synchronize()


def engine_main(inbox, outbox, result):
    torch.cuda.set_device(0)
    net = build_net().cuda()
    torch.cuda.synchronize()
    engine = EngineSide(net, inbox, outbox)
    for _ in range(3):
        engine.receive()
        result.put(sum(float(p.double().sum()) for p in net.parameters()))


def main():
    ctx = mp.get_context("spawn")
    to_engine, from_engine, result = ctx.Queue(), ctx.Queue(), ctx.Queue()
    proc = ctx.Process(target=engine_main, args=(to_engine, from_engine, result))
    proc.start()
    torch.cuda.set_device(0)
    net = build_net().cuda()
    trainer = TrainerSide(net, to_engine, from_engine)
    for _ in range(3):
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p), alpha=1e-3)
        trainer.push()
        want = sum(float(p.double().sum()) for p in net.parameters())
        print(want, result.get())
    proc.join()


if __name__ == "__main__":
    main()
