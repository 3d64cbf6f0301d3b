import torch
import torch.nn as nn


class ReqToTokenPool:
    def __init__(self, reqs, max_len):
        self.req_to_token = torch.zeros(reqs, max_len, dtype=torch.long, device="cuda")


class VerifyPlan:
    def __init__(self, cache_loc, positions, mask):
        self.cache_loc = cache_loc
        self.positions = positions
        self.mask = mask


class EagleWorker:
    def __init__(self, vocab, dim, reqs, max_len, num_draft):
        self.pool = ReqToTokenPool(reqs, max_len)
        self.num_draft = num_draft
        self.max_len = max_len
        self.seq_lens = torch.full((reqs,), 16, dtype=torch.long, device="cuda")
        self.next_loc = torch.zeros((), dtype=torch.long, device="cuda")
        self.embed = nn.Embedding(vocab, dim).cuda()
        self.draft = nn.Linear(dim, vocab).cuda()
        self.target = nn.Linear(dim, vocab).cuda()
        self.kv = torch.zeros(reqs * max_len, dim, device="cuda")
        self.last = torch.zeros(reqs, dtype=torch.long, device="cuda")
        self.forward_stream = torch.cuda.Stream()
        self.plan_stream = torch.cuda.Stream()
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        self.plan_stream.wait_stream(torch.cuda.current_stream())

    def run_draft(self):
        ids, drafts = self.last, []
        for _ in range(self.num_draft):
            ids = self.draft(self.embed(ids)).argmax(-1)
            drafts.append(ids)
        return torch.stack(drafts, dim=1)

    def prepare_for_verify(self):
        with torch.cuda.stream(self.plan_stream):
            offsets = torch.arange(self.num_draft, device="cuda")
            positions = (self.seq_lens[:, None] + offsets) % self.max_len
            rows = torch.arange(self.seq_lens.numel(), device="cuda")[:, None]
            cache_loc = rows * self.max_len + positions
            self.pool.req_to_token[rows, positions] = cache_loc
            mask = positions[:, :, None] >= positions[:, None, :]
        return VerifyPlan(cache_loc, positions, mask)

    def verify(self, drafts, plan):
        hidden = self.embed(drafts)
        self.kv[plan.cache_loc.flatten()] = hidden.flatten(0, 1)
        ctx = plan.mask.to(hidden.dtype) @ self.kv[plan.cache_loc]
        target_ids = self.target(ctx).argmax(-1)
        accept = (target_ids[:, :-1] == drafts[:, 1:]).cumprod(dim=1).sum(dim=1)
        self.last.copy_(target_ids.gather(1, accept[:, None]).squeeze(1))
        self.seq_lens.add_(accept + 1)

    @torch.inference_mode()
    def forward_batch(self):
        with torch.cuda.stream(self.forward_stream):
            drafts = self.run_draft()
            plan = self.prepare_for_verify()
            self.forward_stream.wait_stream(self.plan_stream)
            for t in (plan.cache_loc, plan.positions, plan.mask):
                t.record_stream(self.forward_stream)
            self.verify(drafts, plan)


def main():
    worker = EagleWorker(32000, 512, 32, 2048, 5)
    for _ in range(64):
        worker.forward_batch()
    torch.cuda.synchronize()
    print(worker.seq_lens.tolist()[:4])


if __name__ == "__main__":
    main()
