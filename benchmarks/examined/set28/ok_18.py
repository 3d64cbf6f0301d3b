import numpy as np
import torch


class DraftTree:
    """Token tree proposed by the n-gram corpus, kept on the host."""

    def __init__(self, tokens, mask):
        self.tokens = tokens
        self.mask = mask

    def links(self):
        n = self.tokens.shape[0]
        parent = np.full(n, -1, dtype=np.int64)
        for i in range(1, n):
            ancestors = np.flatnonzero(self.mask[i, :i])
            parent[i] = ancestors.max() if ancestors.size else -1
        first_child = np.full(n, -1, dtype=np.int64)
        sibling = np.full(n, -1, dtype=np.int64)
        for i in range(n - 1, 0, -1):
            if parent[i] >= 0:
                sibling[i] = first_child[parent[i]]
                first_child[parent[i]] = i
        return first_child, sibling


class GrammarVerifier:
    def __init__(self, vocab):
        self.words = (vocab + 31) // 32
        self.vocab = vocab
        self.shifts = torch.arange(32, device="cuda", dtype=torch.int32)

    def host_bitmask(self, trees, grammars):
        rows = sum(t.tokens.shape[0] for t in trees)
        mask = torch.full((rows, self.words), -1, dtype=torch.int32, pin_memory=True)
        row = 0
        for tree, grammar in zip(trees, grammars):
            if grammar is not None:
                self._traverse(tree, grammar, mask.numpy()[row:], *tree.links(), 0)
            row += tree.tokens.shape[0]
        return mask

    def _traverse(self, tree, grammar, out, child, sibling, node):
        while node >= 0:
            if grammar.accept(int(tree.tokens[node])):
                grammar.fill_bitmask(out[node])
                if child[node] >= 0:
                    self._traverse(tree, grammar, out, child, sibling, child[node])
                grammar.rollback(1)
            node = sibling[node]

    def apply(self, logits, mask):
        device_mask = mask.to(logits.device, non_blocking=True)
        bits = (device_mask[:, :, None] >> self.shifts) & 1
        allowed = bits.view(logits.shape[0], -1)[:, : self.vocab].bool()
        logits.masked_fill_(~allowed, float("-inf"))


class NGramWorker:
    def __init__(self, model, corpus, verifier):
        self.model, self.corpus, self.verifier = model, corpus, verifier

    @torch.inference_mode()
    def verify(self, reqs):
        trees = [DraftTree(*self.corpus.propose(r.tokens)) for r in reqs]
        ids = torch.from_numpy(np.concatenate([t.tokens for t in trees])).pin_memory().to("cuda", non_blocking=True)
        attn = [torch.from_numpy(t.mask).pin_memory().to("cuda", non_blocking=True) for t in trees]
        logits = self.model.target_verify(ids, torch.block_diag(*[a.float() for a in attn]).bool())
        if any(r.grammar is not None for r in reqs):
            mask = self.verifier.host_bitmask(trees, [r.grammar for r in reqs])
            self.verifier.apply(logits, mask)
        predicted = logits.argmax(dim=-1).tolist()

        row = 0
        for r, tree in zip(reqs, trees):
            child, sibling = tree.links()
            node, accepted = 0, []
            while True:
                want = predicted[row + node]
                accepted.append(want)
                nxt = child[node]
                while nxt >= 0 and int(tree.tokens[nxt]) != want:
                    nxt = sibling[nxt]
                if nxt < 0:
                    break
                node = nxt
            r.tokens.extend(accepted)
            if r.grammar is not None:
                r.grammar.advance(accepted)
            row += tree.tokens.shape[0]
