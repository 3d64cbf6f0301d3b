import json


class Report:
    def __init__(self, mirror, names, every=10):
        self.mirror = mirror
        self.names = list(names)
        self.every = every
        self.rows = []

    def add(self, step, scores):
        if step % self.every:
            return
        self.mirror.push(scores)
        values = self.mirror.host.tolist()
        self.rows.append({"step": step, **dict(zip(self.names, values))})

    def close(self, path, scores):
        self.mirror.push(scores)
        final = self.mirror.finish().tolist()
        self.rows.append({"step": "final", **dict(zip(self.names, final))})
        with open(path, "w") as fh:
            for row in self.rows:
                fh.write(json.dumps(row) + "\n")
        return len(self.rows)
