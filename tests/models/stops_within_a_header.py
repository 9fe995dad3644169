import gc
import os
import struct
import time

from service.sandbox.channel import Channel

(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
print("first")
time.sleep(0.05)
print("second")
os.write(channel._socket.fileno(), struct.pack("<IQ", 1000, 0) + b"{")
while True:
    time.sleep(1)
