class Session:
    """Runs the steps of one shot in the order in which they were added."""

    def __init__(self):
        self._steps = []

    def add(self, fn):
        self._steps.append(fn)
        return self

    def once(self):
        note = None
        for fn in self._steps:
            got = fn(note)
            note = got if got is not None else note

    def run(self, times):
        for _ in range(times):
            self.once()


def photo_session(camera, album):
    return (
        Session()
        .add(lambda _: album.expect())
        .add(lambda _: camera.shoot(hold=album.taken))
        .add(lambda page: album.paste(page))
    )
