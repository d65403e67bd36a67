"""An explained workflow as text and as a page."""
