"""What commands print: lines of text, JSON, and progress."""
