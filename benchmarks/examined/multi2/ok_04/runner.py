import torch


class Runner:
    def __init__(self, net, completer, batch, classes):
        self.net = net
        self.completer = completer
        self.down = torch.cuda.Stream()
        self.batch = batch
        self.classes = classes

    def _landing(self):
        return torch.empty(self.batch, self.classes, pin_memory=True)

    @torch.inference_mode()
    def launch(self, x):
        scores = torch.softmax(self.net(self.check(x)), dim=-1)
        host = self._landing()
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            host.copy_(scores, non_blocking=True)
            event = self.down.record_event()
        return self.completer.watch(event, host, keep=(scores,))

    def flops(self):
        total = 0
        for m in self.net.modules():
            if isinstance(m, torch.nn.Linear):
                total += 2 * m.in_features * m.out_features
        return total * self.batch

    def check(self, x):
        if x.shape[0] != self.batch:
            raise ValueError(f"batch of {x.shape[0]}, made for {self.batch}")
        return x
