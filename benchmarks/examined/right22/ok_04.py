import torch


class Context:
    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.slots = {}

    def seal(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def scope(self):
        return torch.cuda.stream(self.stream)

    def finish(self):
        self.stream.synchronize()


class Stage:
    def __init__(self, ctx, cfg):
        self.ctx = ctx
        self.setup(cfg)

    def setup(self, cfg):
        pass


class Upload(Stage):
    def setup(self, cfg):
        self.ctx.slots["x"] = torch.empty(cfg["rows"], cfg["cols"], device=self.ctx.device)

    def go(self, host):
        with self.ctx.scope():
            self.ctx.slots["x"].copy_(host, non_blocking=True)


class Multiply(Stage):
    def setup(self, cfg):
        self.w = torch.randn(cfg["cols"], cfg["cols"], device=self.ctx.device)
        self.ctx.slots["y"] = torch.empty(cfg["rows"], cfg["cols"], device=self.ctx.device)

    def go(self, host):
        with self.ctx.scope():
            torch.mm(self.ctx.slots["x"], self.w, out=self.ctx.slots["y"])


class Download(Stage):
    def setup(self, cfg):
        self.back = torch.empty(cfg["rows"], cfg["cols"]).pin_memory()

    def go(self, host):
        with self.ctx.scope():
            self.back.copy_(self.ctx.slots["y"], non_blocking=True)


STAGES = {"up": Upload, "mm": Multiply, "down": Download}


def build(ctx, plan, cfg):
    made = [STAGES[name](ctx, cfg) for name in plan.split(">")]
    ctx.seal()
    return made


def main():
    cfg = {"rows": 256, "cols": 768}
    ctx = Context("cuda:0")
    stages = build(ctx, "up>mm>down", cfg)
    host = torch.empty(cfg["rows"], cfg["cols"]).pin_memory()
    trace = []
    for step in range(20):
        host.normal_()
        for stage in stages:
            stage.go(host)
        ctx.finish()
        trace.append(stages[-1].back.abs().mean().item())
    print(trace)


if __name__ == "__main__":
    main()
