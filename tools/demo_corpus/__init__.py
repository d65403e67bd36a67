"""What the demo's corpus is made with: `python -m tools.demo_corpus.generate` writes it anew."""
