"""What embedding and reading share: an encoder's directory, its batches and its device."""
