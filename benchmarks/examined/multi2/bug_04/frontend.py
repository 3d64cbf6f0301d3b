from collections import defaultdict

from outputs import gather_finished


class StreamingFrontend:
    """Keeps the text of every request and tells when it is over."""

    def __init__(self, eos, limit):
        self.eos = eos
        self.limit = limit
        self.texts = defaultdict(list)
        self.scores = defaultdict(float)
        self.over = set()

    def accept(self, out):
        ids = out.token_ids.tolist()
        scores = out.logprobs.numpy()
        for i, tok in enumerate(ids):
            if i in self.over:
                continue
            self.texts[i].append(tok)
            self.scores[i] += float(scores[i])
            if len(self.texts[i]) >= self.limit:
                self.over.add(i)
        self.over.update(gather_finished(ids, self.eos))

    def all_over(self, n):
        return len(self.over) == n

    def report(self):
        for i in sorted(self.texts):
            print(i, len(self.texts[i]), round(self.scores[i], 3))

    def perplexity(self, i):
        n = len(self.texts[i])
        if n == 0:
            return float("inf")
        return 2.718281828 ** (-self.scores[i] / n)

    def reset(self):
        self.texts.clear()
        self.scores.clear()
        self.over.clear()
