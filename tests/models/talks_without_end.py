import gc
import os
import time

from service.sandbox.channel import LENGTHS, Channel

print("printed meanwhile")
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
channel._socket.setblocking(True)
descriptor = channel._socket.fileno()
said = b'{"kind":"file","name":"archive"}'
os.write(descriptor, LENGTHS.pack(len(said), 2**30 - 2**20) + said)
while True:  # the rest of the frame, which takes a quarter of an hour
    os.write(descriptor, bytes(1024))
    time.sleep(0.001)
