"""Codec decode graphs for a streaming vocoder: static buffers, one lock, event-guarded outputs."""
import threading

import torch


class CodecGraphRunner:
    def __init__(self, codec, batch_size, n_vq, device):
        self.codec = codec
        self.batch_size = batch_size
        self.n_vq = n_vq
        self.device = torch.device(device)
        self.lock = threading.Lock()
        self.graphs = {}
        self.released = torch.cuda.Event()

    @torch.inference_mode()
    def warmup(self, frame_counts):
        stream = torch.cuda.Stream(self.device)
        pool = torch.cuda.graph_pool_handle()
        for frames in sorted(frame_counts, reverse=True):
            codes = torch.zeros(self.batch_size, self.n_vq, frames, dtype=torch.long, device=self.device)
            mask = torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.codec(codes, mask)
            torch.cuda.current_stream(self.device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                wave = self.codec(codes, mask)
            self.graphs[frames] = (graph, codes, mask, wave)
        torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def decode(self, codes, active):
        frames = codes.shape[-1]
        captured = self.graphs.get(frames)
        if captured is None:
            return self.codec(codes, active)
        graph, static_codes, static_mask, wave = captured
        with self.lock:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(self.released)
            static_codes.copy_(codes)
            static_mask.copy_(active)
            graph.replay()
            out = wave.clone()
            self.released.record(current)
        return out


class VocoderWorker(threading.Thread):
    def __init__(self, runner, jobs, results):
        super().__init__(daemon=True)
        self.runner = runner
        self.jobs = jobs
        self.results = results
        self.stream = torch.cuda.Stream(runner.device)

    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                key, codes, active, ready = job
                self.stream.wait_event(ready)
                codes.record_stream(self.stream)
                active.record_stream(self.stream)
                wave = self.runner.decode(codes, active)
                self.results.put((key, wave.float().cpu()))


def submit(jobs, key, codes, active):
    ready = torch.cuda.Event()
    ready.record(torch.cuda.current_stream(codes.device))
    jobs.put((key, codes, active, ready))
