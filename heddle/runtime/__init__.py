"""The runtime decides and never computes: requests, readiness, scheduling, one loop, one clock.

The files in the order in which a request meets them:

The entrance
    `runtime`           the state machine that joins all parts; `cycle(now_s)` advances it
    `loop`              drives a runtime on an asyncio loop, without polling
    `clock`             the only file here that reads real time
    `admission`         accepts a request or answers Busy with an estimated wait
    `handle`            the caller's end of a request: await it, iterate it, cancel it
    `loop_waker`        wakes many handles of one event loop at once
    `turn_end`          puts off to the end of a turn what is better done once for all
    `events`            the events that a handle delivers

A request in flight
    `request`           one request: its store, its open primitives, its receipt
    `request_table`     all requests, each from its admission to its one terminal event
    `runs`              which requests are calls of one run of another program, and their texts
    `object_store`      a request's values; every key is written once
    `values`            reads parts of prompts and queries out of that store
    `written_list`      a list that a model writes: whole, or item by item
    `receipt`           what was done for a request: counts, times, degradations

What may run
    `region_plan`       a lowered and optimised region of a workflow, cached for the next request
    `primitive_plan`    one primitive of a region: its producers and its consumers
    `readiness`         opens regions and finds the primitives whose inputs are complete
    `controls`          primitives that need no engine: callable edges, joined passages, rounds
    `pipeline`          readers of a list that begin with its first items
    `answer_lookups`    answers that were given before: looked for, checked, given again
    `repeats`           texts that loops have written before: taken again, or drafts of the next
    `conditions`        calls a callable edge and reads the nodes that it names
    `function_calls`    workflow functions: the regions that they make, the values they wait for
    `rounds`            generations that retrieve while they decode: when the next round is due
    `own_passages`      the passages that came with a request, and the nearest of them
    `neighbours`        the passages that a chunk's KV is computed after

What is sent
    `lane`              one engine as the runtime sees it: its port, its queue, its last load
    `search_meter`      what the searches of a lane have taken lately
    `utilisation`       how busy an engine is, and what more work would cost all who wait there
    `engine_scheduler`  one engine's queue: which primitive is admitted next
    `batching`          the batching policies behind it (Teola Algorithm 2)
    `payload_builder`   turns a ready primitive into the payload that its engine takes
    `fence`             the line behind a prompt's passages that none of them can write
    `long_prompts`      prompts that threads make, because tokenising them takes long
    `dispatcher`        sends ready primitives to the engines as tasks
    `task_table`        the tasks in flight, the leases, and the credits that they hold
    `wavefront`         what waits, with its predicted cost and start, as cycle passes see it
    `steering`          runs the passes of a cycle and sends their edits to the engines
    `guess`             one prompt computed with passages that may still change
    `speculator`        starts, keeps and cancels those guesses

What comes back
    `frame_intake`      reads frames: lost and repeated ones, tokens, results, failures
    `folding`           turns an engine's result into the primitive's value
    `reading`           turns what a reading model answers into passages in order, or quotations
    `rank_fusion`       joins several rankings into one
    `retries`           decides whether a failed task is sent again
    `suspects`          knows the requests that may have ended lanes, and refuses them
    `quarantine`        has suspects run one after another, at last alone
    `answer_builder`    builds the answer once every primitive is complete
    `answer_keeping`    which answers are kept, and which a changed corpus makes void
    `answer_cache`      the answers that are kept, by their questions' texts and vectors
    `kept_answer`       one of them, with the searches that it rests on
    `question_match`    whether two similar questions differ in a word that changes the answer

Beside the way
    `supervision`       decides whether a lane is dead or hangs, and when it may restart
    `step_trace`        which engine was busy when
    `step_log`          each step of each engine, beside what its cost model gave for it
    `counters`          totals for `/health` and tests
"""
