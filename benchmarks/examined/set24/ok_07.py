import threading
from queue import Queue

import torch


class DecodeGraphs:
    """Graphs for one decode worker, keyed by (frames, batch bucket)."""

    def __init__(self, decoder, code_dim, buckets, frame_counts, device):
        self.decoder = decoder
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {}
        for frames in frame_counts:
            for batch in buckets:
                self.entries[(frames, batch)] = self._capture(frames, batch, code_dim, device)

    @torch.inference_mode()
    def _capture(self, frames, batch, code_dim, device):
        static_in = torch.zeros((batch, code_dim, frames), dtype=torch.int64, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.decoder(static_in)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            static_out = self.decoder(static_in)
        return graph, static_in, static_out

    @torch.inference_mode()
    def decode(self, codes_cpu):
        n, _, frames = codes_cpu.shape
        bucket = min((b for f, b in self.entries if f == frames and b >= n), default=None)
        with torch.cuda.stream(self.stream):
            codes = codes_cpu.to("cuda", non_blocking=True)
            if bucket is None:
                wav = self.decoder(codes)
            else:
                graph, static_in, static_out = self.entries[(frames, bucket)]
                static_in.zero_()
                static_in[:n].copy_(codes)
                graph.replay()
                wav = static_out[:n]
            host = torch.empty(wav.shape, dtype=wav.dtype, pin_memory=True)
            host.copy_(wav, non_blocking=True)
        self.stream.synchronize()
        return host


class VocoderWorker(threading.Thread):
    def __init__(self, name, graphs, sink):
        super().__init__(name=name, daemon=True)
        self.graphs = graphs
        self.sink = sink
        self.jobs = Queue()

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            request_ids, codes = job
            wav = self.graphs.decode(codes)
            for i, rid in enumerate(request_ids):
                self.sink(rid, wav[i].numpy())


class StreamingVocoder:
    def __init__(self, decoder, code_dim, sink, device="cuda"):
        initial = DecodeGraphs(decoder, code_dim, (1, 4, 8), (4,), device)
        followup = DecodeGraphs(decoder, code_dim, (1, 4, 8), (33,), device)
        torch.cuda.synchronize()
        self.workers = {
            "initial": VocoderWorker("voc-initial", initial, sink),
            "followup": VocoderWorker("voc-followup", followup, sink),
        }
        for w in self.workers.values():
            w.start()

    def submit(self, kind, request_ids, codes):
        self.workers[kind].jobs.put((request_ids, codes.pin_memory()))

    def close(self):
        for w in self.workers.values():
            w.jobs.put(None)
        for w in self.workers.values():
            w.join()
