import torch


class InputBatch:

    def __init__(self):
        self.prev_sampled_token_ids = None
        self.req_ids = []


class SpecDecodeModelRunner:

    def __init__(self, model, drafter, rejection_sampler, max_num_reqs, device):
        self.model = model
        self.drafter = drafter
        self.rejection_sampler = rejection_sampler
        self.device = device
        self.input_batch = InputBatch()
        self.valid_sampled_token_count_event = torch.cuda.Event()
        self.valid_sampled_token_count_copy_stream = torch.cuda.Stream(device=device)
        self.valid_sampled_token_count_cpu = torch.empty(
            max_num_reqs, dtype=torch.int64, device="cpu", pin_memory=True)
        self._valid_counts = None

    def _get_valid_sampled_token_count(self):
        prev = self.input_batch.prev_sampled_token_ids
        if prev is None:
            return []
        counts_cpu = self.valid_sampled_token_count_cpu
        self.valid_sampled_token_count_event.synchronize()
        return counts_cpu[:prev.shape[0]].tolist()

    def _copy_valid_sampled_token_count(self, next_token_ids, valid_sampled_tokens_count):
        if self.valid_sampled_token_count_event is None:
            return
        copy_stream = self.valid_sampled_token_count_copy_stream
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(torch.cuda.current_stream())
            counts = valid_sampled_tokens_count
            counts_cpu = self.valid_sampled_token_count_cpu
            counts_cpu[:counts.shape[0]].copy_(counts, non_blocking=True)
            self.valid_sampled_token_count_event.record()
        self._valid_counts = counts
        self.input_batch.prev_sampled_token_ids = next_token_ids.unsqueeze(1)

    def propose_draft_token_ids(self, hidden_states, sampled_token_ids):
        valid = sampled_token_ids >= 0
        valid_count = valid.sum(dim=1)
        last = (valid_count - 1).clamp_(min=0)
        next_token_ids = sampled_token_ids.gather(1, last.unsqueeze(1)).squeeze(1)
        self._copy_valid_sampled_token_count(next_token_ids, valid_count)
        return self.drafter(next_token_ids, hidden_states)

    @torch.inference_mode()
    def execute_model(self, input_ids, positions):
        counts = self._get_valid_sampled_token_count()
        num_computed = [c + 1 for c in counts]
        hidden_states, logits = self.model(input_ids, positions)
        sampled_token_ids = self.rejection_sampler(logits)
        drafts = self.propose_draft_token_ids(hidden_states, sampled_token_ids)
        return drafts, num_computed
