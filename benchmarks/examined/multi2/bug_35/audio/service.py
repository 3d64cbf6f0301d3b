import torch


class Service:
    def __init__(self, features, bridge, model, hop=8):
        self.features = features
        self.bridge = bridge
        self.model = model
        self.flush_every = hop
        self._out = []
        self._seen = 0

    @torch.inference_mode()
    def push(self, wave):
        mel = self.bridge(self.features(wave))
        self._out.append(self.model(mel))
        self._seen += 1
        if self._seen % self.flush_every == 0:
            return self._flush()
        return None

    def _flush(self):
        rows = torch.stack(self._out).cpu()
        self._out.clear()
        self.bridge.forget()
        return rows

    @classmethod
    def assemble(cls, parts):
        return cls(parts["features"](), parts["bridge"](), parts["model"]())
