"""Where something is observed: interfaces, a relay, a proxy, files, and the processes behind the sockets."""
