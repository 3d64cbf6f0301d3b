import torch
import torch.nn as nn


class SpeculativeDecoder:
    """Draft and target model on a stream each, meeting once per round."""

    def __init__(self, draft: nn.Module, target: nn.Module, k: int = 4):
        self.draft, self.target, self.k = draft, target, k
        self.draft_stream = torch.cuda.Stream()
        self.target_stream = torch.cuda.Stream()
        self.drafted = torch.cuda.Event()
        self.verified = torch.cuda.Event()

    def _propose(self, prefix: torch.Tensor) -> torch.Tensor:
        self.draft_stream.wait_event(self.verified)
        prefix.record_stream(self.draft_stream)
        with torch.cuda.stream(self.draft_stream):
            tokens = prefix
            for _ in range(self.k):
                logits = self.draft(tokens)[:, -1]
                tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
            proposal = tokens[:, prefix.shape[1]:].contiguous()
            self.drafted.record()
        return proposal

    def _verify(self, prefix: torch.Tensor, proposal: torch.Tensor):
        self.target_stream.wait_event(self.drafted)
        proposal.record_stream(self.target_stream)
        with torch.cuda.stream(self.target_stream):
            full = torch.cat([prefix, proposal], dim=1)
            choice = self.target(full)[:, prefix.shape[1] - 1 :].argmax(-1)
            agree = (choice[:, :-1] == proposal).long().cumprod(dim=1).sum(dim=1)
            count = int(agree.min().item())
            bonus = choice[:, count : count + 1]
            prefix = torch.cat([prefix, proposal[:, :count], bonus], dim=1)
            self.verified.record()
        return prefix, count

    @torch.inference_mode()
    def generate(self, prompt: torch.Tensor, max_new: int) -> list:
        caller = torch.cuda.current_stream()
        self.target_stream.wait_stream(caller)
        self.draft_stream.wait_stream(caller)
        with torch.cuda.stream(self.target_stream):
            prefix = prompt.to("cuda")
            self.verified.record()
        produced = 0
        while produced < max_new:
            proposal = self._propose(prefix)
            prefix, count = self._verify(prefix, proposal)
            produced += count + 1
        with torch.cuda.stream(self.target_stream):
            tokens = prefix.tolist()
        caller.wait_stream(self.draft_stream)
        caller.wait_stream(self.target_stream)
        return tokens


def main(make_model, prompts):
    torch.cuda.set_device(0)
    decoder = SpeculativeDecoder(make_model("small").cuda().eval(), make_model("large").cuda().eval())
    for prompt in prompts:
        print(decoder.generate(prompt, 64))
