"""The CuPy backend of asyncgraph: kernels on CUDA GPUs, on CuPy's arrays.

Nothing of CUDA runs on an event loop's thread. Each GPU has one thread that launches, its *dispatcher*: it calls the
`work` of one submission after the other, each inside a *lane*: a long-lived stream that no other submission has
meanwhile. Each lane has a thread that waits, its *reaper*: it blocks, without the GIL, until the lane's event has
fired, copies results out of pinned memory, lets go of all that had to live so long, and only then says `done`. So

- whatever a submission gives can be used on any stream: the device is done with it;
- memory that CuPy takes back is given out again on the lane that it was first given out on, behind whatever still uses
  it there; what is used on another lane, by another device or by a copy from the host, is held until the event;
- a stream is current inside one synchronous call alone, and so never across an `await`.

One module a thing: `_backend` what the session sees, `_dispatcher` and `_reaper` the threads, `_lanes` streams and
events, `_submission` what lives until an event, `_staging` the pinned memory, `_transfers` the copies, `_errors` what
an error means for a device, `_kernels` the ops, `_detect` whether there is a GPU. `_cuda_api` alone imports CuPy, and
has all that is used of it.
"""

from __future__ import annotations

from ._backend import CupyBackend as CupyBackend

__all__ = ["CupyBackend"]
