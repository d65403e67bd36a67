"""A runtime whose searches run until a test ends them, and report hits in between."""

from heddle.core.frames import Progress
from tests.helpers.fake_ports import Bench, hits_of, is_search


class RunningSearches(Bench):
    """A bench that speculates."""

    def __init__(self, **options):
        super().__init__(**{"speculates": True, **options})
        self.vector.holds = is_search

    def look(self, *, probability=0.9, fraction=0.5, worse=0, after_s=1.0):
        """Report hits of the running searches: those that they will end with, or worse ones."""
        self.clock.time_s += after_s
        events = []
        for task_id, task in self.vector.open.items():
            hits = hits_of(task.payload)
            labels = hits.labels + worse
            events.append(
                Progress(
                    task_id,
                    labels=labels,
                    distances=hits.distances,
                    fraction=fraction,
                    probability=probability,
                )
            )
        self.vector.post(*events)
        self.cycle()

    def ended(self, call):
        """End the searches, and return the answer."""
        self.vector.answer_all()
        self.cycle()
        answer = call.answer
        self.assert_idle()
        return answer
