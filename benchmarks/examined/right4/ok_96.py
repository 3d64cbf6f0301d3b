import queue
from concurrent.futures import Future, ThreadPoolExecutor

import torch


class PinnedBlocks:
    def __init__(self, count, shape):
        self.blocks = queue.Queue()
        for _ in range(count):
            self.blocks.put(torch.empty(shape, pin_memory=True))

    def get(self):
        return self.blocks.get()

    def put(self, block):
        self.blocks.put(block)


class GpuStage:
    def __init__(self, model, blocks):
        self.model, self.blocks = model, blocks
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.pool = ThreadPoolExecutor(1)

    @torch.inference_mode()
    def _run(self, rows):
        block = self.blocks.get()
        with torch.cuda.stream(self.stream):
            block.copy_(self.model(rows.cuda()), non_blocking=True)
        self.stream.synchronize()
        return block

    def submit(self, rows):
        return self.pool.submit(self._run, rows)


class HostStage:
    def __init__(self, blocks, workers=2):
        self.blocks = blocks
        self.pool = ThreadPoolExecutor(workers)

    def _run(self, block):
        try:
            return block.softmax(-1).topk(3, dim=-1).indices.tolist()
        finally:
            self.blocks.put(block)

    def submit(self, block):
        return self.pool.submit(self._run, block)


def copy_outcome(source, target):
    error = source.exception()
    if error is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())


class Pipeline:
    def __init__(self, model, shape):
        blocks = PinnedBlocks(3, shape)
        self.gpu, self.host = GpuStage(model, blocks), HostStage(blocks)

    def submit(self, rows):
        outcome = Future()

        def after_gpu(done):
            if done.exception() is not None:
                outcome.set_exception(done.exception())
                return
            tail = self.host.submit(done.result())
            tail.add_done_callback(lambda f: copy_outcome(f, outcome))

        self.gpu.submit(rows).add_done_callback(after_gpu)
        return outcome

    def close(self):
        self.gpu.pool.shutdown()
        self.host.pool.shutdown()


def main():
    pipe = Pipeline(torch.nn.Linear(256, 100).cuda(), (32, 100))
    answers = [f.result() for f in [pipe.submit(torch.randn(32, 256)) for _ in range(50)]]
    pipe.close()
    return answers
