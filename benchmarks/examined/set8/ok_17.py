import torch


class SequenceInfo:
    """Host mirror (pinned) and device copy of the batch's sequence metadata."""

    def __init__(self, max_batch_size, max_num_tokens, device="cuda"):
        self.device = torch.device(device)
        self._fields = {
            "input_ids": (max_num_tokens, torch.int),
            "position_ids": (max_num_tokens, torch.long),
            "seq_len": (max_batch_size, torch.int),
            "cu_seqlen": (max_batch_size + 1, torch.int),
        }
        self._host = {
            k: torch.zeros(n, dtype=dt, pin_memory=True) for k, (n, dt) in self._fields.items()
        }
        self._dev = {
            k: torch.zeros(n, dtype=dt, device=self.device) for k, (n, dt) in self._fields.items()
        }
        self._copy_done = torch.cuda.Event()
        self.num_sequences = 0

    def _stage(self, name, values):
        host = self._host[name]
        n = len(values)
        host[:n] = torch.tensor(values, dtype=host.dtype)
        self._dev[name][:n].copy_(host[:n], non_blocking=True)

    def nest_sequences(self, input_ids, input_pos):
        self._copy_done.synchronize()
        seq_len = [len(ids) for ids in input_ids]
        cu = [0]
        for n in seq_len:
            cu.append(cu[-1] + n)
        flat = [t for ids in input_ids for t in ids]
        pos = [p + i for p, n in zip(input_pos, seq_len) for i in range(n)]
        self.num_sequences = len(seq_len)
        self._stage("input_ids", flat)
        self._stage("position_ids", pos)
        self._stage("seq_len", seq_len)
        self._stage("cu_seqlen", cu)
        self._copy_done.record()

    def switch_to_generate_(self):
        n = self.num_sequences
        self._copy_done.synchronize()
        self._host["seq_len"][:n].fill_(1)
        self._host["cu_seqlen"][:n + 1] = torch.arange(n + 1, dtype=torch.int)

    def host_seq_len(self):
        return self._host["seq_len"][:self.num_sequences]

    def args(self):
        return dict(self._dev)


class EagleOneModel:

    def __init__(self, target, draft, info, num_draft):
        self.target = target
        self.draft = draft
        self.info = info
        self.num_draft = num_draft

    @torch.inference_mode()
    def forward(self, input_ids, input_pos):
        self.info.nest_sequences(input_ids, input_pos)
        hidden, token = self.target(**self.info.args())
        self.info.switch_to_generate_()
        tokens = [token]
        for _ in range(self.num_draft):
            hidden, token = self.draft(hidden, token, self.info.host_seq_len())
            tokens.append(token)
        return torch.stack(tokens, dim=1)
