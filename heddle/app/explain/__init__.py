"""What happens to a workflow: its regions, what each pass does to them, what a run measures."""
