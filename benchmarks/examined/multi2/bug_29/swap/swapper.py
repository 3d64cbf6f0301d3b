from concurrent.futures import ThreadPoolExecutor

import torch


class BlockSwapper:
    def __init__(self, blocks, host, keep=2, debug=False):
        self.blocks = list(blocks)
        self.host = host
        self.keep = keep
        self.debug = debug
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.stream = torch.cuda.Stream(self.device)
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.futures = {}
        self.rooms = [self._room(self.blocks[i]) for i in range(keep)]

    def _room(self, block):
        return {n: torch.empty_like(p, device=self.device) for n, p in block.named_parameters()}

    def room_of(self, index):
        return self.rooms[index % self.keep]

    def _job(self, index, after):
        torch.cuda.set_device(self.device)
        if self.debug:
            print(f"[swap] block {index}")
        return self.host.move_in(index, self.room_of(index), self.stream, after)

    def submit_move(self, index):
        if index >= len(self.blocks) or index in self.futures:
            return
        after = torch.cuda.current_stream().record_event()
        self.futures[index] = self.pool.submit(self._job, index, after)

    def wait_for_block(self, index):
        future = self.futures.pop(index)
        ticket = future.result()
        if self.debug:
            print(f"[swap] block {ticket.index} moved")
        return ticket.index

    def start(self):
        for i in range(self.keep):
            self.submit_move(i)

    def close(self):
        self.pool.shutdown(wait=True)
