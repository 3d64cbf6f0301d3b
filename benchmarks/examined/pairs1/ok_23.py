"""Cold KV pages are quantised to int8 on a background stream."""
from dataclasses import dataclass

import torch


@dataclass
class ColdPage:
    data: torch.Tensor
    scale: torch.Tensor
    ready: torch.cuda.Event


class PageQuantizer:
    def __init__(self, pages):
        self.pages = pages
        self.stream = torch.cuda.Stream(priority=0)
        self.cold = {}
        self.busy = {}

    def demote(self, page):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            src = self.pages[page]
            scale = src.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
            data = (src / scale).round().to(torch.int8)
            ready = self.stream.record_event()
        self.cold[page] = ColdPage(data, scale, ready)
        self.busy[page] = ready

    def reuse(self, page):
        event = self.busy.pop(page, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        return self.pages[page]

    def read(self, page):
        cold = self.cold[page]
        main = torch.cuda.current_stream()
        main.wait_event(cold.ready)
        cold.data.record_stream(main)
        cold.scale.record_stream(main)
        return cold.data.float() * cold.scale


def main(num_pages=32, steps=300):
    pages = torch.zeros(num_pages, 16, 1024, device="cuda")
    quant = PageQuantizer(pages)
    acc = torch.zeros(16, 1024, device="cuda")
    for step in range(steps):
        page = step % num_pages
        quant.reuse(page).copy_(torch.randn(16, 1024, device="cuda"))
        acc += pages[page]
        quant.demote(page)
        if step >= 4:
            acc += quant.read((step - 4) % num_pages)
    print(acc.mean().item())


if __name__ == "__main__":
    main()
