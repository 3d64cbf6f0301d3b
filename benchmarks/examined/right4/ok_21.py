import queue
import threading

import torch


class WeightExchange:
    def __init__(self, module, copies=2):
        self.copies = [
            {name: torch.empty_like(t) for name, t in module.state_dict().items()} for _ in range(copies)
        ]
        self.vacant, self.published = queue.Queue(), queue.Queue()
        for i in range(copies):
            self.vacant.put(i)

    def publish(self, module):
        try:
            index = self.vacant.get_nowait()
        except queue.Empty:
            return False
        for name, t in module.state_dict().items():
            self.copies[index][name].copy_(t)
        torch.cuda.current_stream().synchronize()
        self.published.put(index)
        return True

    def absorb(self, module, stream):
        index = None
        while True:
            try:
                newer = self.published.get_nowait()
            except queue.Empty:
                break
            if index is not None:
                self.vacant.put(index)
            index = newer
        if index is None:
            return False
        module.load_state_dict(self.copies[index])
        stream.synchronize()
        self.vacant.put(index)
        return True


class RolloutServer(threading.Thread):
    def __init__(self, module, exchange, prompts):
        super().__init__()
        self.module, self.exchange, self.prompts = module, exchange, prompts
        self.stream = torch.cuda.Stream(priority=-1)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.answers = []

    @torch.no_grad()
    def run(self):
        with torch.cuda.stream(self.stream):
            for prompt in self.prompts:
                self.exchange.absorb(self.module, self.stream)
                logits = self.module(prompt.cuda())
                self.answers.append(logits.argmax(-1).tolist())


def main():
    make = lambda: torch.nn.Linear(512, 1024).cuda()
    trainer, served = make(), make()
    exchange = WeightExchange(trainer)
    server = RolloutServer(served, exchange, [torch.randn(4, 512) for _ in range(200)])
    server.start()
    opt = torch.optim.SGD(trainer.parameters(), lr=0.1)
    for step in range(100):
        x = torch.randn(64, 512, device="cuda")
        opt.zero_grad()
        trainer(x).square().mean().backward()
        opt.step()
        if step % 5 == 4:
            exchange.publish(trainer)
    server.join()
    return server.answers


if __name__ == "__main__":
    main()
