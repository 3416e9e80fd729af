"""Known faults of WSGI servers, each with its neighbours, held against this one."""
