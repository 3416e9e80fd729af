"""Takes ten seconds to load."""

import time

import probe

probe.record("loading")
time.sleep(10)
application = probe.application
