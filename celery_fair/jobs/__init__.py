"""Batch jobs: many items worked off in chunks that give way, counted exactly, and resumable.

How a job runs. Its producer appends items to the store, a bounded number ahead of what is done.
Chunk messages (*tickets*) wait at the broker, a bounded number too, and say no more than the job's
id: which items it works on, a chunk claims when it starts, as many as take about a second by what
was measured so far. When it ends, it reports in one step, and its ticket is followed by another as
long as items are left. What a dead worker had claimed goes back after a while; a claim that was
lost that way counts nothing any more, so each item is counted once however often it ran.
"""
