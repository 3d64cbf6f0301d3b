import queue

import torch

MAX_LANES = 32
FIELDS = 8


class DecodeRound:
    """Device-side state that one speculative decode round reads."""

    def __init__(self, device):
        self.ingress = torch.zeros((MAX_LANES, FIELDS), dtype=torch.int32, device=device)
        self.tokens = torch.zeros((MAX_LANES,), dtype=torch.int64, device=device)


class PipelineStage:
    def __init__(self, model, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.io = DecodeRound(self.device)
        self.host_ingress = torch.zeros((MAX_LANES, FIELDS), dtype=torch.int32).pin_memory()
        self.host_tokens = torch.zeros((MAX_LANES,), dtype=torch.int64).pin_memory()
        self.round_done = torch.cuda.Event()
        self.in_flight = 0
        torch.cuda.synchronize(self.device)

    def bind_sequence_kv(self, lane, table_row, seq_len):
        """Publish a freshly admitted sequence to the device tables."""
        self.host_ingress.zero_()
        self.host_ingress[lane, 0] = lane
        self.host_ingress[lane, 1] = table_row
        self.host_ingress[lane, 2] = seq_len
        with torch.cuda.stream(self.stream):
            self.io.ingress.copy_(self.host_ingress, non_blocking=True)

    def launch_round(self, lanes):
        for row, lane in enumerate(lanes):
            self.host_ingress[row, 0] = lane.index
            self.host_ingress[row, 1] = lane.table_row
            self.host_ingress[row, 2] = lane.seq_len
            self.host_ingress[row, 3] = 1
        with torch.cuda.stream(self.stream):
            self.io.ingress.copy_(self.host_ingress, non_blocking=True)
            out = self.model(self.io.ingress, self.io.tokens)
            self.io.tokens.copy_(out)
            self.host_tokens.copy_(out, non_blocking=True)
            self.round_done.record(self.stream)
        self.in_flight = len(lanes)

    def finish_round(self):
        self.round_done.synchronize()
        n, self.in_flight = self.in_flight, 0
        return self.host_tokens[:n].tolist()


class Lane:
    def __init__(self, index, table_row, seq_len):
        self.index = index
        self.table_row = table_row
        self.seq_len = seq_len


def serve(stage, admissions: "queue.Queue", emit, max_rounds):
    lanes = [Lane(0, 0, 1)]
    free_rows = list(range(1, MAX_LANES))
    for _ in range(max_rounds):
        stage.launch_round(lanes)
        while free_rows:
            try:
                seq_len = admissions.get_nowait()
            except queue.Empty:
                break
            row = free_rows.pop()
            lane = Lane(len(lanes), row, seq_len)
            stage.bind_sequence_kv(lane.index, row, seq_len)
            lanes.append(lane)
        tokens = stage.finish_round()
        for lane, tok in zip(lanes, tokens):
            lane.seq_len += 1
            emit(lane.index, tok)
