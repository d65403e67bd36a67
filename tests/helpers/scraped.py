"""Reading what /metrics has written."""

from prometheus_client.parser import text_string_to_metric_families


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and its labels' values, in the labels' order."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
