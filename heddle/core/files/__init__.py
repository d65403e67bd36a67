"""Files in memory."""
