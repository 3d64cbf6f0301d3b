class Batcher:
    def __init__(self, graphed, batch):
        self.graphed = graphed
        self.batch = batch
        self.launched = 0

    def _load(self, rows):
        self.graphed.static_in.copy_(rows)

    def _launch(self):
        self.graphed.launch()
        self.launched += 1

    def split(self, rows):
        whole = rows.shape[0] // self.batch * self.batch
        return list(rows[:whole].split(self.batch))

    def run(self, rows):
        pieces = self.split(rows)
        outs = []
        self._load(pieces[0])
        self._launch()
        for piece in pieces[1:]:
            self._load(piece)
            outs.append(self.graphed.join().clone())
            self._launch()
        outs.append(self.graphed.join().clone())
        return outs
