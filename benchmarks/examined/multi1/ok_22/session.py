import os
import tempfile


class Session:
    def __init__(self, model, every=100, folder=None):
        self.model = model
        self.every = every
        self.folder = folder or tempfile.mkdtemp(prefix="run_")
        self.step = 0
        self._saver = None
        self.paths = []

    def _get_saver(self):
        if self._saver is None:
            from snapshot import Snapshotter

            self._saver = Snapshotter()
        return self._saver

    def tick(self):
        self.step += 1
        if self.step % self.every == 0:
            path = os.path.join(self.folder, f"step{self.step:06d}.pt")
            self._get_saver().save(self.model.state_dict(), path)
            self.paths.append(path)

    def close(self):
        if self._saver is not None:
            self._saver.wait()
        return self.paths
