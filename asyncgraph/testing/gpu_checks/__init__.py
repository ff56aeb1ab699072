"""What only a graphics card can show, by one command, in less than six minutes, on one card.

    python -m asyncgraph.testing.gpu_checks [--device gpu:0] [--sections launch,copy] [--json gpu_checks.json]
        [--budget 330]

It prints one table, and writes the same rows to a JSON file, with the date, the card, the versions and a hash of its
own source. It needs the CuPy backend, and pytest for `ag-conformance`. Nothing else should use the card meanwhile.

Sections of CuPy alone, what the backend is measured against and built upon:

    env        versions; in a process of its own: import, context, kernels that are not compiled yet, first matmul
    launch     microseconds that calls take, on the host and until the device is done
    copy       to the device and back, from pinned and from pageable memory
    overlap    copies and kernels on one lane and on three; small kernels on 1 to 32 streams
    complete   how late a blocking event is; how late the event loop is beside a thread that launches
    hazard     memory that is used again too early, and how that is prevented; out of memory; a lost context
    num        dtypes, subnormals, repeatability, exchange with torch

Sections of asyncgraph, through its public API:

    ag-latency      one run; a graph of 50 nodes against the same by hand; 1000 runs at once
    ag-results      on the host and on the device; arrays of the device that are fed
    ag-cancel       a storm of cancellations; all memory is back
    ag-oom          a run that needs too much memory, and the runs beside and after it
    ag-end          a process that has used the device, and ends
    ag-lost         a context that is lost: the runs that fail, and those of the host, which go on
    ag-conformance  the conformance kit on the real backend, last, in all the time that is left

Rows. "ok" and "FAIL" are promises and what the backend rests on; "missed" is a goal of speed; "info" is there to be
read. A check that raises is a "FAIL", and the others go on. Times are medians after a warm-up, unless a row says
otherwise. A section that takes longer than its budget ends before its next check; what is left out says so. When the
time of all is over, or after Ctrl-C, the table is printed with what there is.

The exit status is 0; 1 if a row failed; 2 if there is no card, which the JSON file has the reason of; 130 after Ctrl-C.

Without a card, what does not need one is tested on a model of CuPy, whose table says "stand-in" instead of figures.
"""
