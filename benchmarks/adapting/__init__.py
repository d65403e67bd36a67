"""Programs of other frameworks, as their pages write them, before and after `heddle.wrap`."""
