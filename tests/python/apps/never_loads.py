"""Takes for ever to load."""

import time

while True:
    time.sleep(1)
