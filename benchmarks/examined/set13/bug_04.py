import threading
from collections import deque
from queue import Queue

import torch


class ModelWorkerBatch:
    def __init__(self, reqs, input_ids):
        self.reqs = reqs
        self.input_ids = input_ids
        self.copy_done = torch.cuda.Event()
        self.launch_done = None


class TpModelWorkerClient:
    def __init__(self, worker, device="cuda"):
        self.worker = worker
        self.device = device
        self.forward_stream = torch.cuda.Stream(device=device)
        self.input_queue = Queue()
        self.forward_thread = threading.Thread(target=self.forward_thread_func, daemon=True)
        self.forward_thread.start()

    @torch.no_grad()
    def forward_thread_func(self):
        while True:
            batch, next_token_ids = self.input_queue.get()
            if batch is None:
                break
            with torch.cuda.stream(self.forward_stream):
                input_ids = batch.input_ids.to(self.device)
                logits = self.worker.forward(input_ids)
                next_token_ids.copy_(torch.argmax(logits, dim=-1), non_blocking=True)
                batch.copy_done.record()
            batch.launch_done.set()

    def forward_batch_generation(self, batch):
        next_token_ids = torch.empty(len(batch.reqs), dtype=torch.int64, pin_memory=True)
        self.input_queue.put((batch, next_token_ids))
        return next_token_ids

    def resolve_last_batch_result(self, batch, next_token_ids, launch_done):
        launch_done.wait()
        batch.copy_done.synchronize()
        return next_token_ids.tolist()


class Scheduler:
    def __init__(self, worker, waiting_queue):
        self.tp_worker = TpModelWorkerClient(worker)
        self.waiting_queue = waiting_queue
        self.result_queue = deque()
        self.last_batch = None
        self.launch_done = threading.Event()
        self.launch_done.set()

    def get_next_batch_to_run(self):
        return self.waiting_queue.popleft() if self.waiting_queue else None

    def process_batch_result(self, batch, result, launch_done):
        ids = self.tp_worker.resolve_last_batch_result(batch, result, launch_done)
        for req, token in zip(batch.reqs, ids):
            req.output_ids.append(token)

    def event_loop_overlap(self):
        while self.waiting_queue or self.last_batch is not None:
            batch = self.get_next_batch_to_run()
            if batch is not None:
                batch.launch_done = threading.Event()
                result = self.tp_worker.forward_batch_generation(batch)
                self.result_queue.append((batch, result))

            if self.last_batch is not None:
                tmp_batch, tmp_result = self.result_queue.popleft()
                self.process_batch_result(tmp_batch, tmp_result, self.launch_done)
                self.launch_done = self.last_batch.launch_done
            self.last_batch = batch
