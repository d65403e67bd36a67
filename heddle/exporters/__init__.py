"""What requests did, in forms that people and other tools read: tables, paths, timelines, files."""
