"""The reading engine: a question and passages to quotes and scores, in batches of windows."""
