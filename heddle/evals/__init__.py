"""Answer quality as numbers: questions with known answers, metrics, and runs of a workflow."""
