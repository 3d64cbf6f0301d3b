from concurrent.futures import ThreadPoolExecutor

import torch

from .cell import HostCell


class HostOptimizer:
    def __init__(self, module, lr=1e-2, beta=0.9, threads=4):
        self.lane = torch.cuda.Stream()
        self.executor = ThreadPoolExecutor(threads)
        self.cells = {}
        for layer in module.modules():
            own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
            for p in own:
                self.cells[p] = HostCell(p, lr, beta)
                p.register_post_accumulate_grad_hook(self._on_grad)
            if own:
                layer.register_forward_pre_hook(self._on_forward)

    def _on_grad(self, param):
        cell = self.cells[param]
        self.lane.wait_stream(torch.cuda.current_stream())
        cell.fetch(self.lane)
        cell.job = self.executor.submit(cell.update)

    def _on_forward(self, layer, args):
        for p in layer.parameters(recurse=False):
            cell = self.cells.get(p)
            if cell is not None and cell.job is not None:
                cell.job.result()
                cell.job = None
                cell.store()

    def flush(self):
        for cell in self.cells.values():
            if cell.job is not None:
                cell.job.result()
                cell.job = None
                cell.store()
        self.executor.shutdown()
