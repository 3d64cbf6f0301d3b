"""Robot controller with policy hot-swap from a background thread."""
import threading
import time

import torch
from torch import nn
from torch.func import functional_call


class PolicyBox:
    def __init__(self, params):
        self._lock = threading.Lock()
        self._params = params
        self._ready = torch.cuda.current_stream().record_event()

    def publish(self, params, ready):
        with self._lock:
            self._params, self._ready = params, ready

    def read(self):
        with self._lock:
            params, ready = self._params, self._ready
        stream = torch.cuda.current_stream()
        stream.wait_event(ready)
        for p in params.values():
            p.record_stream(stream)
        return params


class Updater(threading.Thread):
    def __init__(self, box, template, rounds):
        super().__init__(daemon=True)
        self.box, self.template, self.rounds = box, template, rounds

    def fetch(self, round_):
        gen = torch.Generator().manual_seed(round_)
        return {k: torch.randn(v.shape, generator=gen) * 0.05 for k, v in self.template.items()}

    def run(self):
        stream = torch.cuda.Stream()
        for r in range(self.rounds):
            host = self.fetch(r)
            with torch.cuda.stream(stream):
                params = {k: v.pin_memory().to("cuda", non_blocking=True) for k, v in host.items()}
                ready = stream.record_event()
            self.box.publish(params, ready)
            time.sleep(0.02)


@torch.inference_mode()
def control(box, net, ticks):
    obs = torch.zeros(64, 40, device="cuda")
    effort = torch.zeros((), device="cuda")
    for _ in range(ticks):
        params = box.read()
        action = functional_call(net, params, (obs,))
        obs = 0.95 * obs + 0.05 * action.repeat(1, 4) + 0.01 * torch.randn_like(obs)
        effort += action.square().mean()
    return (effort / ticks).item()


def main():
    net = nn.Sequential(nn.Linear(40, 256), nn.Tanh(), nn.Linear(256, 10)).cuda()
    box = PolicyBox({k: v.detach() for k, v in net.named_parameters()})
    updater = Updater(box, {k: v.detach().cpu() for k, v in net.named_parameters()}, 50)
    updater.start()
    print(control(box, net, 5000))
    updater.join()


if __name__ == "__main__":
    main()
