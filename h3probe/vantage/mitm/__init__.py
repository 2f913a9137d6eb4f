"""What runs inside mitmdump: the add-on, and the layers it puts in place of mitmproxy's own.

Nothing outside of this package imports mitmproxy, and h3probe's own process imports nothing of this package but
`settings`.
"""
