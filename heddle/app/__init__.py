"""The one place where configuration becomes clocks, engines, lanes and schedulers."""
