"""WsgiDAV over a folder, for tests/python/suites."""

import os

from wsgidav.fs_dav_provider import FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp

application = WsgiDAVApp(
    {
        "provider_mapping": {"/": FilesystemProvider(os.environ["DAV_SITE_FILES"], readonly=False)},
        "simple_dc": {"user_mapping": {"*": True}},
        # Both in memory, so for one process.
        "lock_storage": True,
        "property_manager": True,
        "verbose": 1,
        "logging": {"enable_loggers": []},
    }
)
