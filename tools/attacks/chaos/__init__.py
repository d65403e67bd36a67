"""Parts of running servers are broken while they answer: `python -m tools.attacks.chaos`.

Every request must get one end, nothing is shown twice, and servers end as their exit codes say.
"""
