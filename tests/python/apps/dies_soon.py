"""Loads, says so, and ends its process 50 ms later, unless DIES_SOON is `no`."""

import os
import threading

import probe

application = probe.application

probe.record(f"loaded {os.getpid()}")
if os.environ.get("DIES_SOON") != "no":
    threading.Timer(0.05, os._exit, [1]).start()
