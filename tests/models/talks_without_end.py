import gc

from service.sandbox.channel import Channel

print("printed meanwhile")
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
channel.send({"kind": "file", "name": "archive"}, bytes(2**30 - 2**20))
